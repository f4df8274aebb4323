// Package e2e_test runs the real binary on real containers: `muster up`, a stock
// kubectl, and kills. It knows nothing of muster's packages: it sees what a user
// sees. It runs with MUSTER_E2E=1 (make e2e), as root.
package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// patience is how long a test waits for a condition before it calls it lost.
const patience = 90 * time.Second

// shared is the cluster that the tests which harm nothing use together.
var shared struct {
	once sync.Once
	c    *cluster
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.c != nil {
		if err := shared.c.purge(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// cluster is one `muster up` with everything of its own.
type cluster struct {
	dir        string // data directory
	logs       string // pod logs
	links      string // container log links
	kubeconfig string
	flags      []string
	client     kubernetes.Interface

	mu      sync.Mutex
	process *exec.Cmd
	output  *bytes.Buffer
}

func root(path string) string {
	abs, err := filepath.Abs(filepath.Join("..", "..", path))
	if err != nil {
		panic(err)
	}
	return abs
}

func needE2E(t *testing.T) {
	t.Helper()
	if os.Getenv("MUSTER_E2E") == "" {
		t.Skip("needs root and a container runtime: run make e2e")
	}
}

// theCluster is the shared cluster, started on first use, with all images.
func theCluster(t *testing.T) *cluster {
	t.Helper()
	needE2E(t)
	shared.once.Do(func() {
		shared.c, shared.err = newCluster("shared")
		if shared.err != nil {
			return
		}
		if shared.err = shared.c.up(); shared.err == nil {
			shared.err = shared.c.importImages()
		}
	})
	if shared.err != nil {
		t.Fatalf("starting the shared cluster: %v", shared.err)
	}
	return shared.c
}

// ownCluster is a cluster for one test, which may kill it.
func ownCluster(t *testing.T) *cluster {
	t.Helper()
	needE2E(t)
	c, err := newCluster(t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("muster up printed:\n%s", c.printed())
		}
		if err := c.purge(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// newCluster chooses ports and ranges by name, so that clusters do not meet.
func newCluster(name string) (*cluster, error) {
	dir, err := os.MkdirTemp("", "muster-e2e-")
	if err != nil {
		return nil, err
	}
	hash := fnv.New32a()
	hash.Write([]byte(name))
	third := hash.Sum32() % 250
	api, err := freePort()
	if err != nil {
		return nil, err
	}
	agent, err := freePort()
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: filepath.Join(dir, "data"), logs: filepath.Join(dir, "pods"), links: filepath.Join(dir, "containers")}
	c.kubeconfig = filepath.Join(c.dir, "kubeconfig")
	c.flags = []string{
		"--data-dir", c.dir, "--node-name", "node-1",
		"--listen", fmt.Sprintf(":%d", api), "--agent-port", fmt.Sprint(agent),
		"--pod-cidr", fmt.Sprintf("10.%d.%d.0/24", 130+third%50, third),
		"--pod-logs-dir", c.logs, "--container-logs-dir", c.links,
	}
	return c, nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// up starts `muster up` in the foreground and waits until it says the node is Ready.
func (c *cluster) up() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.output = &bytes.Buffer{}
	ready := make(chan struct{})
	c.process = exec.Command(root("bin/muster"), append([]string{"up"}, c.flags...)...)
	c.process.Stdout = &watched{buffer: c.output, mark: "is Ready", found: ready}
	c.process.Stderr = c.process.Stdout
	if err := c.process.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	process := c.process
	go func() { ended <- process.Wait() }()
	select {
	case <-ready:
	case err := <-ended:
		return fmt.Errorf("muster up ended before the node was Ready: %v\n%s", err, c.printed())
	case <-time.After(3 * time.Minute):
		return fmt.Errorf("the node is not Ready after 3 minutes\n%s", c.printed())
	}
	return c.connect()
}

func (c *cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return err
	}
	c.client, err = kubernetes.NewForConfig(config)
	return err
}

func (c *cluster) printed() string {
	if w, ok := c.process.Stdout.(*watched); ok {
		return w.String()
	}
	return ""
}

// kill ends `muster up` as kill -9 does.
func (c *cluster) kill(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := c.process.Process.Signal(signal); err != nil {
		t.Fatalf("sending %v to muster up: %v", signal, err)
	}
	c.ended(t)
}

// ended waits until the process is gone: its lock is free then.
func (c *cluster) ended(t *testing.T) {
	t.Helper()
	lock, err := os.Open(filepath.Join(c.dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	for {
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

func (c *cluster) importImages() error {
	tars, err := filepath.Glob(root("bin/images/*.tar"))
	if err != nil || len(tars) == 0 {
		return fmt.Errorf("no images in bin/images: run make images (%v)", err)
	}
	return c.muster(append([]string{"images", "import", "--data-dir", c.dir}, tars...)...)
}

// muster runs a verb of the binary.
func (c *cluster) muster(args ...string) error {
	out, err := exec.Command(root("bin/muster"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("muster %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// purge takes everything away and checks that it is gone.
func (c *cluster) purge() error {
	err := c.muster("down", "--purge", "--data-dir", c.dir)
	if err == nil {
		err = os.RemoveAll(filepath.Dir(c.dir))
	}
	return err
}

// watched is a buffer that tells when a mark was written.
type watched struct {
	mu     sync.Mutex
	buffer *bytes.Buffer
	mark   string
	found  chan struct{}
	done   bool
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buffer.Write(p)
	if !w.done && strings.Contains(w.buffer.String(), w.mark) {
		w.done = true
		close(w.found)
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buffer.String()
}

func (c *cluster) context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
