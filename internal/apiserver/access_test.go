package apiserver_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"muster.dev/muster/internal/testkit/server"
)

// ask sends a request over TLS with whatever certificate and token is given.
func ask(t *testing.T, s *server.Server, path, token string, certificate *tls.Certificate) int {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CA)
	config := &tls.Config{RootCAs: roots}
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(soon(t), http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode
}

func TestNothingIsOpenButHealth(t *testing.T) {
	s := server.Shared(t)
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		if status := ask(t, s, path, "", nil); status != http.StatusOK {
			t.Errorf("%s answers %d", path, status)
		}
	}
	for _, path := range []string{
		"/", "/api", "/api/v1/namespaces", "/apis", "/version", "/openapi/v2", "/openapi/v3", "/metrics",
		"/livez/ping", "/debug/pprof/", "/openid/v1/jwks", "/.well-known/openid-configuration", "/none",
	} {
		if status := ask(t, s, path, "", nil); status != http.StatusUnauthorized {
			t.Errorf("%s answers %d", path, status)
		}
	}
	if status := ask(t, s, "/readyz", "not-a-token", nil); status != http.StatusUnauthorized {
		t.Errorf("a bad token is answered %d even for health", status)
	}
}

func TestAServersCertificateDoesNotLogIn(t *testing.T) {
	s := server.Shared(t)
	pair, err := s.PKI.AgentServer("n1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	if status := ask(t, s, "/api/v1/nodes/n1", "", &certificate); status != http.StatusUnauthorized {
		t.Errorf("it is answered %d", status)
	}
}

// asAccount is a client with a new token of a service account.
func asAccount(t *testing.T, s *server.Server, namespace, name string) kubernetes.Interface {
	t.Helper()
	request, err := owner(t, s).CoreV1().ServiceAccounts(namespace).CreateToken(
		soon(t), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(&rest.Config{
		Host: s.URL, BearerToken: request.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: s.CA}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAServiceAccountsTokenLogsIn(t *testing.T) {
	s := server.Shared(t)
	c := owner(t, s)
	ctx := soon(t)
	if _, err := c.CoreV1().ServiceAccounts("kube-public").Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	robot := asAccount(t, s, "kube-public", "robot")
	var unused []kubernetes.Interface
	for range 50 {
		unused = append(unused, asAccount(t, s, "kube-public", "robot"))
	}
	who, err := robot.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username != "system:serviceaccount:kube-public:robot" {
		t.Fatalf("it logs in as %v (%v)", who, err)
	}
	if _, err := robot.CoreV1().Secrets("kube-public").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("without a role it may list Secrets: %v", err)
	}
	// A token once found good is remembered for ten seconds; one never used is
	// refused as soon as the server has seen its account go.
	if err := c.CoreV1().ServiceAccounts("kube-public").Delete(ctx, "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the deleted account's tokens to be refused", func() bool {
		if len(unused) == 0 {
			t.Fatal("every token was let in after its account's end")
		}
		fresh := unused[0]
		unused = unused[1:]
		_, err := fresh.CoreV1().Secrets("kube-public").List(ctx, metav1.ListOptions{})
		return apierrors.IsUnauthorized(err)
	})
}
