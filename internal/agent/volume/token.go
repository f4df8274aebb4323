package volume

import (
	"context"
	"fmt"
	"time"

	authentication "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// defaultTokenLife is how long a token lives where the Pod does not say.
const defaultTokenLife = time.Hour

// maxTokenAge is when a token is renewed at the latest, however long it lives.
const maxTokenAge = 24 * time.Hour

type tokenKey struct {
	pod      types.UID
	audience string
	seconds  int64
}

type token struct {
	text    string
	renewAt time.Time
	expires time.Time
}

// token gives the Pod's service account token, bound to the Pod, asking for a new
// one when four fifths of the old one's life are over. While that fails the old
// one serves for as long as it is valid.
func (m *Manager) token(ctx context.Context, pod *v1.Pod, source *v1.ServiceAccountTokenProjection) (string, error) {
	seconds := ptr.Deref(source.ExpirationSeconds, int64(defaultTokenLife/time.Second))
	key := tokenKey{pod: pod.UID, audience: source.Audience, seconds: seconds}
	now := m.options.Now()
	m.mu.Lock()
	held, known := m.tokens[key]
	m.mu.Unlock()
	if known && now.Before(held.renewAt) {
		return held.text, nil
	}
	fresh, err := m.requestToken(ctx, pod, source.Audience, seconds, now)
	if err != nil {
		if known && now.Before(held.expires) {
			return held.text, nil
		}
		return "", fmt.Errorf("failed to fetch token: %w", err)
	}
	m.mu.Lock()
	m.tokens[key] = fresh
	m.mu.Unlock()
	return fresh.text, nil
}

func (m *Manager) requestToken(ctx context.Context, pod *v1.Pod, audience string, seconds int64, now time.Time) (token, error) {
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authentication.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	answer, err := m.options.Client.CoreV1().ServiceAccounts(pod.Namespace).
		CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return token{}, err
	}
	expires := answer.Status.ExpirationTimestamp.Time
	return token{text: answer.Status.Token, expires: expires, renewAt: renewal(now, expires)}, nil
}

// renewal is when to ask for the next token: at 80 % of the life, and at the
// latest a day after it was issued.
func renewal(issued, expires time.Time) time.Time {
	return issued.Add(min(expires.Sub(issued)*4/5, maxTokenAge))
}

func (m *Manager) forgetTokens(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.tokens {
		if key.pod == uid {
			delete(m.tokens, key)
		}
	}
}
