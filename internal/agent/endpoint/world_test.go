package endpoint

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/pki"
	"muster.dev/muster/internal/runtime"
)

// node is an endpoint under test with all that is around it.
type node struct {
	*Server
	t      *testing.T
	pods   *fakePods
	stream *fakeStreams
	api    *fakeAPI
	pki    *pki.PKI
	client *http.Client
	stop   func()
}

// startNode runs an endpoint whose API server knows two tokens: "admin" may do
// everything, "reader" may get nodes/pods.
func startNode(t *testing.T) *node {
	t.Helper()
	pods, streams := newFakePods(), newFakeStreams(t)
	n := startNodeWith(t, pods, streams)
	n.pods, n.stream = pods, streams
	return n
}

// startNodeWith is the same before other Pods and another runtime.
func startNodeWith(t *testing.T, pods Pods, containers runtime.Runtime) *node {
	t.Helper()
	n := &node{t: t, api: startAPI(t)}
	var err error
	if n.pki, err = pki.Open(t.TempDir(), time.Now); err != nil {
		t.Fatal(err)
	}
	serving, err := n.pki.AgentServer("node-a", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.Server, err = New(Options{
		Listen: "127.0.0.1:0", CertFile: serving.CertFile, KeyFile: serving.KeyFile, ClientCAFile: n.pki.Client.CertFile,
		Client: &rest.Config{Host: n.api.URL}, NodeName: "node-a", Pods: pods, Runtime: containers,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(n.stop)
	n.client = n.clientWith()
	return n
}

// clientWith makes a client that trusts the endpoint and shows certificates.
func (n *node) clientWith(certificates ...tls.Certificate) *http.Client {
	n.t.Helper()
	roots, err := cert.NewPool(n.pki.Server.CertFile)
	if err != nil {
		n.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates}}}
	n.t.Cleanup(client.CloseIdleConnections)
	return client
}

// get asks for a path with a token (none when empty).
func (n *node) get(token, path string) (status int, body string) {
	n.t.Helper()
	return n.getWith(n.client, token, path)
}

func (n *node) getWith(client *http.Client, token, path string) (status int, body string) {
	n.t.Helper()
	request, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, "https://"+n.Addr().String()+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		n.t.Fatal(err)
	}
	defer response.Body.Close()
	var text strings.Builder
	if _, err := io.Copy(&text, response.Body); err != nil {
		n.t.Fatal(err)
	}
	return response.StatusCode, text.String()
}

// fakeAPI answers access reviews and remembers the questions.
type fakeAPI struct {
	*httptest.Server
	mu        sync.Mutex
	questions []authorization.ResourceAttributes
}

func startAPI(t *testing.T) *fakeAPI {
	t.Helper()
	api := &fakeAPI{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authentication.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Status.Authenticated = slices.Contains([]string{"admin", "reader"}, review.Spec.Token)
		review.Status.User.Username = review.Spec.Token
		reply(t, w, &review)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authorization.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		asked := *review.Spec.ResourceAttributes
		api.mu.Lock()
		api.questions = append(api.questions, asked)
		api.mu.Unlock()
		review.Status.Allowed = slices.Contains([]string{"admin", pki.NodeClientName}, review.Spec.User) || (asked.Verb == "get" && asked.Subresource == "pods")
		reply(t, w, &review)
	})
	api.Server = httptest.NewServer(mux)
	t.Cleanup(api.Close)
	return api
}

func reply(t *testing.T, w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(object); err != nil {
		t.Error(err)
	}
}

func (a *fakeAPI) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []string
	for _, q := range a.questions {
		list = append(list, q.Verb+" "+q.Resource+"/"+q.Subresource+" "+q.Name)
	}
	return list
}

// fakePods has one Pod, ns/web with the containers app and setup.
type fakePods struct {
	mu   sync.Mutex
	pod  *v1.Pod
	runs map[string][]Run
}

func newFakePods() *fakePods {
	return &fakePods{
		pod: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u-1"},
			Spec:       v1.PodSpec{InitContainers: []v1.Container{{Name: "setup"}}, Containers: []v1.Container{{Name: "app"}}},
		},
		runs: map[string][]Run{},
	}
}

func (f *fakePods) Pod(namespace, name string) (*v1.Pod, bool) {
	return f.pod, namespace == "ns" && name == "web"
}

func (f *fakePods) Pods() []*v1.Pod { return []*v1.Pod{f.pod} }

func (f *fakePods) Runs(_ context.Context, _ types.UID, container string) ([]Run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.runs[container]), nil
}

func (f *fakePods) Sandbox(context.Context, types.UID) (string, error) { return "sandbox-1", nil }

func (f *fakePods) set(container string, runs ...Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs[container] = runs
}

// fakeStreams is a runtime whose streams say back what they are told.
type fakeStreams struct {
	runtime.Runtime
	echo    *httptest.Server
	mu      sync.Mutex
	exec    *cri.ExecRequest
	forward *cri.PortForwardRequest
}

func newFakeStreams(t *testing.T) *fakeStreams {
	t.Helper()
	f := &fakeStreams{}
	f.echo = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connection, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + r.Header.Get("Upgrade") + "\r\n\r\n"
		if _, err := connection.Write([]byte(head)); err != nil {
			t.Error(err)
			return
		}
		_, _ = buffer.WriteTo(connection) // ends when the client or the endpoint hangs up
	}))
	t.Cleanup(f.echo.Close)
	return f
}

func (f *fakeStreams) Exec(_ context.Context, request *cri.ExecRequest) (*url.URL, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.exec = request
	return url.Parse(f.echo.URL + "/exec/token")
}

func (f *fakeStreams) PortForward(_ context.Context, request *cri.PortForwardRequest) (*url.URL, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forward = request
	return url.Parse(f.echo.URL + "/forward/token")
}
