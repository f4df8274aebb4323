package endpoint

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"

	"muster.dev/muster/internal/pki"
)

func TestClosedToWhoeverIsNotPermitted(t *testing.T) {
	n := startNode(t)
	for _, test := range []struct {
		token, path string
		status      int
		body        string
	}{
		{"", "/pods", 401, "Unauthorized"},
		{"", "/healthz", 401, "Unauthorized"},
		{"stranger", "/pods", 401, "Unauthorized"},
		{"reader", "/pods", 200, `"kind":"PodList"`},
		{"reader", "/containerLogs/ns/web/app", 403, "Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[proxy])"},
		{"reader", "/exec/ns/web/app?command=id&output=1", 403, "Forbidden (user=reader, verb=create, resource=nodes, subresource(s)=[proxy])"},
		{"admin", "/healthz", 200, "ok"},
		{"admin", "/nothing", 404, ""},
	} {
		status, body := n.get(test.token, test.path)
		if status != test.status || !strings.Contains(body, test.body) {
			t.Errorf("%s asks for %s: got %d %q, want %d %q", test.token, test.path, status, body, test.status, test.body)
		}
	}
	asked := n.api.asked()
	for _, want := range []string{"get nodes/pods node-a", "get nodes/proxy node-a", "create nodes/proxy node-a", "get nodes/healthz node-a"} {
		if !slices.Contains(asked, want) {
			t.Errorf("the API server was never asked %q, only %q", want, asked)
		}
	}
}

// TestClientCertificates lets the API server in by its certificate, and nobody by
// one that another authority signed.
func TestClientCertificates(t *testing.T) {
	n := startNode(t)
	apiServer, err := n.pki.APIServerToNode()
	if err != nil {
		t.Fatal(err)
	}
	for want, pair := range map[int]pki.Pair{
		http.StatusOK:           apiServer,
		http.StatusUnauthorized: {CertFile: n.options.CertFile, KeyFile: n.options.KeyFile},
	} {
		certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		if status, body := n.getWith(n.clientWith(certificate), "", "/healthz"); status != want {
			t.Errorf("%s: got %d %q, want %d", pair.CertFile, status, body, want)
		}
	}
}

func TestPodsAreListed(t *testing.T) {
	n := startNode(t)
	_, body := n.get("admin", "/pods/")
	var list v1.PodList
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Name != "web" {
		t.Errorf("got %v", list.Items)
	}
}

// writeLog writes a log in CRI format: a line a second from 10:00:00 on.
func writeLog(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "0.log")
	var text strings.Builder
	for i, line := range lines {
		stream, said, ok := strings.Cut(line, ":")
		if !ok {
			stream, said = "stdout", line
		}
		fmt.Fprintf(&text, "2026-01-02T10:00:%02d.000000000Z %s F %s\n", i, stream, said)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLogs(t *testing.T) {
	n := startNode(t)
	n.pods.set("app",
		Run{ContainerID: "new", LogPath: writeLog(t, "one", "stderr:two", "three"), Running: true},
		Run{ContainerID: "old", LogPath: writeLog(t, "before")})
	n.pods.pod.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "setup", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	for _, test := range []struct {
		path   string
		status int
		body   string
	}{
		{"/ns/web/app", 200, "one\ntwo\nthree\n"},
		{"/ns/web/app?tailLines=1", 200, "three\n"},
		{"/ns/web/app?tailLines=0", 200, ""},
		{"/ns/web/app?limitBytes=6", 200, "one\ntw"},
		{"/ns/web/app?stream=Stderr", 200, "two\n"},
		{"/ns/web/app?timestamps=true&tailLines=1", 200, "2026-01-02T10:00:02.000000000Z three\n"},
		{"/ns/web/app?sinceTime=2026-01-02T10:00:01Z", 200, "two\nthree\n"},
		{"/ns/web/app?sinceSeconds=1", 200, ""},
		{"/ns/web/app?previous=true", 200, "before\n"},
		{"/ns/web/app?tailLines=many", 422, `{"message": "Invalid request."}` + "\n"},
		{"/ns/web/app?sinceSeconds=1&sinceTime=2026-01-02T10:00:01Z", 422, `{"message": "Invalid request."}` + "\n"},
		{"/ns/other/app", 404, `pod "other" does not exist` + "\n"},
		{"/ns/web/other", 404, `container "other" not found in pod "web"` + "\n"},
		{"/ns/web/setup", 400, `container "setup" in pod "web" is waiting to start: trying and failing to pull image` + "\n"},
		{"/ns/web/setup?previous=true", 400, `previous terminated container "setup" in pod "web" not found` + "\n"},
	} {
		status, body := n.get("admin", "/containerLogs"+test.path)
		if status != test.status || body != test.body {
			t.Errorf("%s: got %d %q, want %d %q", test.path, status, body, test.status, test.body)
		}
	}
}

func TestPreviousWhileTheContainerWaitsIsTheRunThatJustEnded(t *testing.T) {
	n := startNode(t)
	n.pods.set("app", Run{ContainerID: "1", LogPath: writeLog(t, "crashed")})
	n.pods.pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
	for _, query := range []string{"", "?previous=true"} {
		if status, body := n.get("admin", "/containerLogs/ns/web/app"+query); status != 200 || body != "crashed\n" {
			t.Errorf("%q: got %d %q", query, status, body)
		}
	}
}

func TestFollowEndsWithTheContainer(t *testing.T) {
	n := startNode(t)
	run := Run{ContainerID: "1", LogPath: writeLog(t, "one"), Running: true}
	n.pods.set("app", run)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+n.Addr().String()+"/containerLogs/ns/web/app?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer admin")
	response, err := n.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() || lines.Text() != "one" {
		t.Fatalf("first line is %q", lines.Text())
	}
	log, err := os.OpenFile(run.LogPath, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.WriteString("2026-01-02T10:01:00.000000000Z stdout F later\n"); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != "later" {
		t.Fatalf("second line is %q", lines.Text())
	}
	run.Running = false
	n.pods.set("app", run)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("after the end came %q, %v", lines.Text(), lines.Err())
	}
}

// upgrade opens a stream and returns the connection after the switch.
func (n *node) upgrade(path string) (*tls.Conn, *bufio.Reader) {
	n.t.Helper()
	transport := n.client.Transport.(*http.Transport)
	config := transport.TLSClientConfig.Clone()
	config.NextProtos = nil
	connection, err := tls.Dial("tcp", n.Addr().String(), config)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = connection.Close() }) // often closed by the endpoint already
	request, err := http.NewRequest(http.MethodPost, "https://"+n.Addr().String()+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {"Bearer admin"}, "Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}}
	if err := request.Write(connection); err != nil {
		n.t.Fatal(err)
	}
	reader := bufio.NewReader(connection)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		n.t.Fatal(err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		n.t.Fatalf("got %s", response.Status)
	}
	return connection, reader
}

func TestExecGoesThroughToTheRuntime(t *testing.T) {
	n := startNode(t)
	n.pods.set("app", Run{ContainerID: "c-1", Running: true})
	connection, reader := n.upgrade("/exec/ns/web/u-1/app?command=sh&command=-c&input=1&output=1&error=1&tty=1")
	if _, err := connection.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := reader.ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("the stream said %q, %v", line, err)
	}
	asked := n.stream.exec
	if asked.ContainerId != "c-1" || !slices.Equal(asked.Cmd, []string{"sh", "-c"}) || !asked.Stdin || !asked.Stdout || asked.Stderr || !asked.Tty {
		t.Errorf("the runtime was asked for %v", asked)
	}
	n.stop()
	if err := connection.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.ReadString('\n'); err == nil {
		t.Error("the stream outlived the endpoint")
	}
}

func TestPortForwardGoesToTheSandbox(t *testing.T) {
	n := startNode(t)
	n.upgrade("/portForward/ns/web?port=80&port=443")
	if asked := n.stream.forward; asked.PodSandboxId != "sandbox-1" || !slices.Equal(asked.Port, []int32{80, 443}) {
		t.Errorf("the runtime was asked for %v", asked)
	}
}

func TestStreamsThatCannotBe(t *testing.T) {
	n := startNode(t)
	n.pods.set("app", Run{ContainerID: "c-1"})
	for path, want := range map[string]string{
		"/exec/ns/web/app?command=id":                 "400 you must specify at least 1 of stdin, stdout, stderr\n",
		"/exec/ns/web/app?command=id&output=1":        "404 container not found (\"app\")\n",
		"/exec/ns/web/wrong/app?command=id&output=1":  "404 pod \"web\" does not exist\n",
		"/portForward/ns/web?port=99999":              "400 invalid port \"99999\"\n",
		"/attach/ns/web/setup?output=1":               "404 container not found (\"setup\")\n",
		"/exec/ns/web/nothere?command=id&output=true": "404 container \"nothere\" not found in pod \"web\"\n",
	} {
		status, body := n.get("admin", path)
		if got := fmt.Sprint(status, " ", body); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestANewCertificateIsServed(t *testing.T) {
	n := startNode(t)
	first := n.serial()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{n.options.CertFile: certificate, n.options.KeyFile: key} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n.serial() == first {
		select {
		case <-deadline.C:
			t.Fatal("still the old certificate")
		case <-tick.C:
		}
	}
}

// serial is the serial number of the certificate that is served now.
func (n *node) serial() string {
	n.t.Helper()
	connection, err := tls.Dial("tcp", n.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		n.t.Fatal(err)
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].SerialNumber.String()
}
