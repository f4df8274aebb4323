package runtimetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Containerd is a containerd of one test: its own folders, socket, cgroup parent,
// bridge and subnet. The test images are in it.
type Containerd struct {
	Dir          string // everything it keeps; removed at the end
	Endpoint     string // "unix://DIR/ctd.sock"
	CgroupParent string // for the Pods' cgroups: "/muster-test-…"
	Bridge       string // the network's bridge
	Subnet       string // the Pods' addresses

	socket  string
	owner   *os.File // locked as long as this process lives
	process *exec.Cmd
	ended   chan struct{}
	conn    *grpc.ClientConn
}

// StartContainerd starts one and ends it, with all it made, when the test does.
// It skips the test where that cannot be: no root, no containerd.
func StartContainerd(t testing.TB) *Containerd {
	t.Helper()
	skipUnlessPossible(t)
	sweepStale(t)
	dir, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		t.Fatal(err)
	}
	c := newContainerd(dir)
	t.Cleanup(func() { c.close(t) })
	if err := c.own(); err != nil {
		t.Fatal(err)
	}
	if err := c.prepare(); err != nil {
		t.Fatalf("preparing containerd: %v", err)
	}
	c.Start(t)
	c.importImages(t)
	return c
}

func skipUnlessPossible(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a private containerd needs root")
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("a private containerd needs %s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(CNIBin, "bridge")); err != nil {
		t.Skipf("a private containerd needs the CNI plugins: %v", err)
	}
}

// newContainerd derives every name from the folder's, so that what a killed test
// left can be found again. The subnet is free on this machine when it is chosen.
func newContainerd(dir string) *Containerd {
	id := strings.TrimPrefix(filepath.Base(dir), dirPrefix)
	return &Containerd{
		Dir:          dir,
		Endpoint:     "unix://" + filepath.Join(dir, "ctd.sock"),
		CgroupParent: "/muster-test-" + id,
		Bridge:       "mt" + id,
		socket:       filepath.Join(dir, "ctd.sock"),
	}
}

// Start starts it, again after Kill, and waits until it serves CRI.
func (c *Containerd) Start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(c.Dir, "containerd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	process := exec.Command("containerd", "--config", filepath.Join(c.Dir, "config.toml"))
	process.Stdout, process.Stderr = log, log
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := process.Start(); err != nil {
		t.Fatalf("starting containerd: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = process.Wait() // how it ends is the test's own doing
	}()
	c.process, c.ended = process, ended
	if err := c.awaitReady(30 * time.Second); err != nil {
		t.Fatalf("waiting for containerd: %v\n%s", err, c.Log())
	}
}

func (c *Containerd) awaitReady(limit time.Duration) error {
	if c.conn == nil {
		conn, err := grpc.NewClient(c.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		c.conn = conn
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	go func(ended <-chan struct{}) {
		select {
		case <-ended:
			cancel() // nobody will answer
		case <-ctx.Done():
		}
	}(c.ended)
	_, err := cri.NewRuntimeServiceClient(c.conn).Status(ctx, &cri.StatusRequest{}, grpc.WaitForReady(true))
	return err
}

// Kill ends the containerd process, not its containers, as a crash would.
func (c *Containerd) Kill(t testing.TB) {
	t.Helper()
	if err := c.process.Process.Kill(); err != nil {
		t.Fatalf("killing containerd: %v", err)
	}
	<-c.ended
}

// Log is the end of what containerd said.
func (c *Containerd) Log() string {
	text, err := os.ReadFile(filepath.Join(c.Dir, "containerd.log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

func (c *Containerd) importImages(t testing.TB) {
	t.Helper()
	program, err := BuildProg(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, user := range map[string]string{PauseImage: "", ProgImage: "", UserImage: "1234", NamedImage: "nobody"} {
		archive := filepath.Join(c.Dir, "image.tar")
		if err := WriteImage(archive, program, user, name); err != nil {
			t.Fatal(err)
		}
		c.Import(t, archive, name)
	}
}

// Import loads an image archive and waits until CRI knows the names.
func (c *Containerd) Import(t testing.TB, archive string, names ...string) {
	t.Helper()
	ctr := exec.Command("ctr", "--address", c.socket, "--namespace", "k8s.io", "images", "import", "--snapshotter", "native", archive)
	if out, err := ctr.CombinedOutput(); err != nil {
		t.Fatalf("importing %s: %v: %s", archive, err, out)
	}
	images := cri.NewImageServiceClient(c.conn)
	for _, name := range names {
		Await(t, "image "+name, func() (bool, string) {
			answer, err := images.ImageStatus(t.Context(), &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
			return err == nil && answer.Image != nil, fmt.Sprint(answer.GetImage(), err)
		})
	}
}
