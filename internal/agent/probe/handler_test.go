package probe

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// against makes a watch that probes the given address, its port under the name "main".
func against(t *testing.T, address net.Addr) (*watch, int32) {
	t.Helper()
	tcp := address.(*net.TCPAddr)
	return &watch{
		pod:       podWith(v1.Container{}),
		container: &v1.Container{Name: "app", Ports: []v1.ContainerPort{{Name: "main", ContainerPort: int32(tcp.Port)}}},
		target:    Target{PodIP: tcp.IP.String()},
	}, int32(tcp.Port)
}

func page(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		if r.UserAgent() != userAgent || r.Host != "named.example" || r.URL.RawQuery != "q=1" {
			http.Error(w, "unexpected request", http.StatusTeapot)
		}
	})
	mux.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) })
	mux.HandleFunc("/inside", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/bad", http.StatusFound) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func TestHTTP(t *testing.T) {
	server := page(t)
	w, _ := against(t, server.Listener.Addr())
	host := []v1.HTTPHeader{{Name: "Host", Value: "named.example"}}
	for _, test := range []struct {
		path    string
		headers []v1.HTTPHeader
		ok      bool
		output  string
	}{
		{"/ok?q=1", host, true, ""},
		{"/ok?q=1", nil, false, "HTTP probe failed with statuscode: 418"},
		{"/bad", nil, false, "HTTP probe failed with statuscode: 500"},
		{"/inside", nil, false, "HTTP probe failed with statuscode: 500"},
		{"/away", nil, true, ""},
		{"/slow", nil, false, "Client.Timeout exceeded"},
	} {
		action := &v1.HTTPGetAction{Path: test.path, Port: intstr.FromString("main"), HTTPHeaders: test.headers}
		got, err := w.handle(t.Context(), &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: action}}, 500*time.Millisecond)
		if err != nil || got.ok != test.ok || !strings.Contains(got.output, test.output) {
			t.Errorf("%s: got %v %q, %v; want %v %q", test.path, got.ok, got.output, err, test.ok, test.output)
		}
	}
}

func TestHTTPSTakesAnyCertificate(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	w, port := against(t, server.Listener.Addr())
	action := &v1.HTTPGetAction{Scheme: v1.URISchemeHTTPS, Port: intstr.FromInt32(port)}
	got, err := w.httpGet(t.Context(), action, 5*time.Second)
	if err != nil || got.output != "HTTP probe failed with statuscode: 404" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w, port := against(t, listener.Addr())
	action := &v1.TCPSocketAction{Port: intstr.FromInt32(port)}
	if got, err := w.tcp(t.Context(), action, time.Second); err != nil || !got.ok {
		t.Errorf("open port: %+v, %v", got, err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := w.tcp(t.Context(), action, time.Second); err != nil || got.ok || !strings.Contains(got.output, "connection refused") {
		t.Errorf("closed port: %+v, %v", got, err)
	}
}

func TestGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	checks := health.NewServer()
	checks.SetServingStatus("sick", healthpb.HealthCheckResponse_NOT_SERVING)
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, checks)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	w, port := against(t, listener.Addr())
	for service, want := range map[string]string{"": "", "sick": `service unhealthy (responded with "NOT_SERVING")`} {
		got, err := w.grpc(t.Context(), &v1.GRPCAction{Port: port, Service: ptr.To(service)}, 5*time.Second)
		if err != nil || got.ok != (want == "") || got.output != want {
			t.Errorf("service %q: got %+v, %v; want %q", service, got, err, want)
		}
	}
	server.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	got, err := w.grpc(t.Context(), &v1.GRPCAction{Port: port}, 5*time.Second)
	if err != nil || got.ok {
		t.Errorf("no server: got %+v, %v", got, err)
	}
}

func TestPorts(t *testing.T) {
	w, _ := against(t, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80})
	for _, test := range []struct {
		port intstr.IntOrString
		want string
	}{
		{intstr.FromString("main"), "80"},
		{intstr.FromString("81"), "81"},
		{intstr.FromInt32(82), "82"},
		{intstr.FromString("other"), `couldn't find port named "other" in container app`},
		{intstr.FromInt32(0), "invalid port number: 0"},
	} {
		got, err := w.port(test.port)
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%v: got %q, want %q", fmt.Sprint(&test.port), got, test.want)
		}
	}
}
