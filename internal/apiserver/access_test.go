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

// nodePod makes a Pod bound to a node that uses the given Secret.
func nodePod(t *testing.T, c kubernetes.Interface, node, name, secret string) {
	t.Helper()
	_, err := c.CoreV1().ServiceAccounts("nodes").Create(soon(t), &v1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	_, err = c.CoreV1().Secrets("nodes").Create(soon(t), &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secret}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.CoreV1().Pods("nodes").Create(soon(t), &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{
			NodeName:   node,
			Containers: []v1.Container{{Name: "c", Image: "i"}},
			Volumes:    []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: secret}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestANodeReachesItsOwnAndNoMore(t *testing.T) {
	s := server.Shared(t)
	c := owner(t, s)
	ctx := soon(t)
	if _, err := c.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "nodes"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	one, two := newClient(t, s, "n1"), newClient(t, s, "n2")
	for name, client := range map[string]kubernetes.Interface{"n1": one, "n2": two} {
		if _, err := client.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s cannot register: %v", name, err)
		}
	}
	nodePod(t, c, "n1", "p1", "s1")
	nodePod(t, c, "n2", "p2", "s2")
	waitFor(t, "the authorizer to see the Pods", func() bool {
		_, err := two.CoreV1().Secrets("nodes").Get(ctx, "s2", metav1.GetOptions{})
		return err == nil
	})

	allowed := map[string]func() error{
		"read its Pod's Secret": func() error {
			_, err := one.CoreV1().Secrets("nodes").Get(ctx, "s1", metav1.GetOptions{})
			return err
		},
		"list its Pods": func() error {
			_, err := one.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=n1"})
			return err
		},
		"report its Pod": func() error {
			_, err := one.CoreV1().Pods("nodes").Patch(ctx, "p1", "application/merge-patch+json", []byte(`{"status":{"message":"m"}}`), metav1.PatchOptions{}, "status")
			return err
		},
		"report itself": func() error {
			_, err := one.CoreV1().Nodes().Patch(ctx, "n1", "application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
			return err
		},
		"take a token for its Pod": func() error { return takeToken(one, t, "p1") },
	}
	for what, do := range allowed {
		if err := do(); err != nil {
			t.Errorf("n1 cannot %s: %v", what, err)
		}
	}
	forbidden := map[string]func() error{
		"read another node's Secret": func() error {
			_, err := one.CoreV1().Secrets("nodes").Get(ctx, "s2", metav1.GetOptions{})
			return err
		},
		"list Secrets": func() error {
			_, err := one.CoreV1().Secrets("nodes").List(ctx, metav1.ListOptions{})
			return err
		},
		"list all Pods": func() error {
			_, err := one.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			return err
		},
		"report another node": func() error {
			_, err := one.CoreV1().Nodes().Patch(ctx, "n2", "application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
			return err
		},
		"report another node's Pod": func() error {
			_, err := one.CoreV1().Pods("nodes").Patch(ctx, "p2", "application/merge-patch+json", []byte(`{"status":{"message":"m"}}`), metav1.PatchOptions{}, "status")
			return err
		},
		"delete another node's Pod": func() error {
			return one.CoreV1().Pods("nodes").Delete(ctx, "p2", metav1.DeleteOptions{})
		},
		"drop its own taints": func() error {
			_, err := one.CoreV1().Nodes().Patch(ctx, "n1", "application/merge-patch+json", []byte(`{"spec":{"taints":[]}}`), metav1.PatchOptions{})
			return err
		},
		"take a token for another node's Pod": func() error { return takeToken(one, t, "p2") },
		"make a daemon":                       func() error { return one.AppsV1().DaemonSets("nodes").Delete(ctx, "x", metav1.DeleteOptions{}) },
	}
	for what, do := range forbidden {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("n1 may %s: %v", what, err)
		}
	}
	node, err := c.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
	if err != nil || len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != v1.TaintNodeNotReady {
		t.Errorf("a new node has the taints %v (%v)", node.Spec.Taints, err)
	}
}

// takeToken asks for a token bound to a Pod.
func takeToken(c kubernetes.Interface, t *testing.T, pod string) error {
	own, err := c.CoreV1().Pods("nodes").Get(soon(t), pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, err = c.CoreV1().ServiceAccounts("nodes").CreateToken(soon(t), "default", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod, UID: own.UID},
		}}, metav1.CreateOptions{})
	return err
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
	robot, unused := asAccount(t, s, "kube-public", "robot"), asAccount(t, s, "kube-public", "robot")
	who, err := robot.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username != "system:serviceaccount:kube-public:robot" {
		t.Fatalf("it logs in as %v (%v)", who, err)
	}
	if _, err := robot.CoreV1().Secrets("kube-public").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("without a role it may list Secrets: %v", err)
	}
	// A token once found good is remembered for ten seconds; one never used is
	// refused as soon as its account is gone.
	if err := c.CoreV1().ServiceAccounts("kube-public").Delete(ctx, "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := unused.CoreV1().Secrets("kube-public").List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("the deleted account's token: %v", err)
	}
}
