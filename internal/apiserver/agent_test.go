package apiserver_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"muster.dev/muster/internal/pki"
	"muster.dev/muster/internal/testkit/server"
)

// tell says who asked an agent for what.
func tell(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s\n", r.TLS.PeerCertificates[0].Subject.CommonName, r.URL)
}

// follow sends one line and keeps the answer open until nobody listens.
func follow(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, "first")
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// fakeAgent is a node's HTTPS endpoint that lets in who shows a certificate of
// the cluster. It returns its port.
func fakeAgent(t *testing.T, s *server.Server, serving pki.Pair, answer http.HandlerFunc) int {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(serving.CertFile, serving.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(s.PKI.Client.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(authority)
	agent := httptest.NewUnstartedServer(answer)
	agent.TLS = &tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	agent.Config.ErrorLog = log.New(io.Discard, "", 0)
	agent.StartTLS()
	t.Cleanup(agent.Close)
	return agent.Listener.Addr().(*net.TCPAddr).Port
}

// runningPod makes a node with an agent at port, and a Pod that runs on it.
func runningPod(t *testing.T, c kubernetes.Interface, node string, port int) {
	t.Helper()
	ctx := soon(t)
	n, err := c.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "127.0.0.1"}}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	if _, err := c.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := plainPod(func(p *v1.Pod) { p.Name, p.Spec.NodeName = "on-"+node, node })
	if _, err := c.CoreV1().Pods("agents").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestLogsComeFromTheNodesAgent(t *testing.T) {
	s := server.Shared(t)
	c := owner(t, s)
	space(t, c, "agents", nil)
	good, err := s.PKI.AgentServer("logs", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	runningPod(t, c, "logs", fakeAgent(t, s, good, tell))
	out, err := c.CoreV1().Pods("agents").GetLogs("on-logs", &v1.PodLogOptions{Previous: true}).DoRaw(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	if want := pki.NodeClientName + " /containerLogs/agents/on-logs/c?previous=true\n"; string(out) != want {
		t.Errorf("the agent was asked %q, want %q", out, want)
	}

	// Whoever answers with a certificate of another cluster gets nothing.
	foreign, err := pki.Open(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	bad, err := foreign.AgentServer("impostor", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	runningPod(t, c, "impostor", fakeAgent(t, s, bad, tell))
	err = c.CoreV1().Pods("agents").GetLogs("on-impostor", &v1.PodLogOptions{}).Do(soon(t)).Error()
	if err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("the impostor was believed: %v", err)
	}
}

func TestTheAPIServerMayCallAgents(t *testing.T) {
	// An agent asks the API server whether a caller may; for the API server's own
	// certificate the answer must be yes, for a node's no.
	c := owner(t, server.Shared(t))
	for user, want := range map[string]bool{pki.NodeClientName: true, "system:node:other": false} {
		if got := mayRead(soon(t), t, c, user, "nodes", "log", "n1"); got != want {
			t.Errorf("%s may read logs: %v", user, got)
		}
	}
}
