package host

import (
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// serveVariable makes this test's own program a web server instead: the program
// of the container the tests below run.
const serveVariable = "MUSTER_HOST_TEST_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) == "" {
		os.Exit(m.Run())
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		text, err := fetch(r.Context(), r.URL.Query().Get("from"))
		if err != nil {
			text = err.Error()
		}
		fmt.Fprint(w, text)
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServe(":80", nil))
	os.Exit(1)
}

// fetch reads a web page; without a URL it is a greeting.
func fetch(ctx context.Context, url string) (string, error) {
	if url == "" {
		return "hello from the Pod", nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	return string(text), err
}

// serverImage packs this test's own program.
func serverImage(t *testing.T) string {
	t.Helper()
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if file, err := elf.Open(name); err != nil {
		t.Fatal(err)
	} else if needs, _ := file.ImportedLibraries(); len(needs) > 0 {
		t.Skip("this test's program needs libraries, as with -race; the container would have none")
	}
	layer := packTar(t, tarFile{"serve", program})
	config := asJSON(t, map[string]any{"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/serve"}, "Env": []string{serveVariable + "=1"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hexSum(layer)}}})
	list, err := json.Marshal([]any{map[string]any{"Config": "c", "RepoTags": []string{"example.test/serve:1"}, "Layers": []string{"l"}}})
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "serve.tar")
	if err := os.WriteFile(archive, packTar(t, tarFile{"c", config}, tarFile{"l", layer}, tarFile{"manifest.json", list}), 0o600); err != nil {
		t.Fatal(err)
	}
	return archive
}

// A Pod is reached by its hostPort on every address of the machine, by itself
// too, and reaches the machine by the gateway.
func TestPodNetwork(t *testing.T) {
	options := realOptions(t, "10.213.6.0/24")
	archive := serverImage(t)
	c := start(t, options)
	if _, err := Import(t.Context(), options, archive); err != nil {
		t.Fatal(err)
	}
	runContainer(t, c, runSandbox(t, c, "uid-6", 18936), "uid-6", "example.test/serve:1")

	listener, err := net.Listen("tcp", net.JoinHostPort(c.Gateway().String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello from the machine") })}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
	for url, want := range map[string]string{
		"http://127.0.0.1:18936/":                                                 "hello from the Pod",
		"http://" + c.Gateway().String() + ":18936/":                              "hello from the Pod",
		"http://127.0.0.1:18936/?from=http://" + listener.Addr().String():         "hello from the machine",
		"http://127.0.0.1:18936/?from=http://" + c.Gateway().String() + ":18936/": "hello from the Pod", // itself, by its hostPort
	} {
		got := ""
		waitFor(t, url+" answers", func() bool {
			got, err = fetch(t.Context(), url)
			return err == nil && !strings.Contains(got, "refused")
		})
		if got != want {
			t.Errorf("%s gives %q, want %q", url, got, want)
		}
	}
	if err := Remove(t.Context(), options, true); err != nil {
		t.Fatal(err)
	}
	if got, err := fetch(t.Context(), "http://127.0.0.1:18936/"); err == nil {
		t.Errorf("the hostPort answers after removal: %q", got)
	}
}

func runContainer(t *testing.T, c *Containerd, sandbox, uid, image string) string {
	t.Helper()
	client := cri.NewRuntimeServiceClient(c.conn)
	made, err := client.CreateContainer(t.Context(), &cri.CreateContainerRequest{PodSandboxId: sandbox,
		Config: &cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: "app"}, Image: &cri.ImageSpec{Image: image},
			LogPath: "app.log", Annotations: map[string]string{gracePeriod: "5"}},
		SandboxConfig: &cri.PodSandboxConfig{Metadata: &cri.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: uid},
			LogDirectory: filepath.Join(c.options.PodLogsDir, "default_web_"+uid),
			Linux:        &cri.LinuxPodSandboxConfig{CgroupParent: c.CgroupParent()}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.StartContainer(t.Context(), &cri.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
		t.Fatal(err)
	}
	return made.ContainerId
}

// waitFor waits for a condition that nothing announces.
func waitFor(t *testing.T, what string, met func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !met() {
		if time.Now().After(deadline) {
			t.Fatalf("waiting until %s: it does not happen", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
