package apiserver_test

import (
	"bufio"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"muster.dev/muster/internal/apiserver"
	"muster.dev/muster/internal/store"
	"muster.dev/muster/internal/testkit/server"
)

// open starts a server that the test itself closes.
func open(t *testing.T, dir string) *server.Server {
	t.Helper()
	s, err := server.Open(dir, apiserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func service(name, ip string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.ServiceSpec{ClusterIP: ip, Ports: []v1.ServicePort{{Port: 80}}},
	}
}

func TestARestartKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	ctx := soon(t)
	first := open(t, dir)
	c := owner(t, first)
	kept, err := c.CoreV1().Services("default").Create(ctx, service("kept", ""), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := clientcmd.BuildConfigFromFlags("", first.Kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := open(t, dir)
	defer func() {
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	}()
	c = owner(t, second)
	got, err := c.CoreV1().Services("default").Get(ctx, "kept", metav1.GetOptions{})
	if err != nil || got.UID != kept.UID || got.Spec.ClusterIP != kept.Spec.ClusterIP {
		t.Errorf("the Service is now %v (%v)", got, err)
	}
	// The address is still taken, from the first moment on.
	_, err = c.CoreV1().Services("default").Create(ctx, service("thief", kept.Spec.ClusterIP), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "provided IP is already allocated") {
		t.Errorf("the address was given away: %v", err)
	}
	if _, err := c.CoreV1().Services("default").Create(ctx, service("new", ""), metav1.CreateOptions{}); err != nil {
		t.Errorf("no new address: %v", err)
	}
	// Yesterday's kubeconfig still logs in.
	token.Host = second.URL
	old, err := kubernetes.NewForConfig(token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("the old kubeconfig: %v", err)
	}
}

func TestASecondServerOnTheSameDirectoryIsRefused(t *testing.T) {
	s := server.Shared(t)
	if _, err := server.Open(s.Dir, apiserver.Options{}); !errors.Is(err, store.ErrInUse) {
		t.Errorf("it says %v", err)
	}
}

// watching opens a watch and says by name when it has ended.
func watching(t *testing.T, c kubernetes.Interface, name string, ended chan<- string) {
	t.Helper()
	w, err := c.CoreV1().Pods("").Watch(soon(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range w.ResultChan() {
		}
		ended <- name
	}()
}

// following opens a log that does not end by itself, and says when it was cut.
func following(t *testing.T, s *server.Server, c kubernetes.Interface, ended chan<- string) {
	t.Helper()
	serving, err := s.PKI.AgentServer("follow", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	space(t, owner(t, s), "agents", nil)
	runningPod(t, owner(t, s), "follow", fakeAgent(t, s, serving, follow))
	stream, err := c.CoreV1().Pods("agents").GetLogs("on-follow", &v1.PodLogOptions{Follow: true}).Stream(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stream)
	if !lines.Scan() || lines.Text() != "first" {
		t.Fatalf("the log begins with %q", lines.Text())
	}
	go func() {
		for lines.Scan() {
		}
		ended <- "log"
	}()
}

func TestShutdownEndsWatchesAndLogs(t *testing.T) {
	s := open(t, t.TempDir())
	ctx := soon(t)
	inside := owner(t, s)
	pair, err := s.PKI.Admin()
	if err != nil {
		t.Fatal(err)
	}
	outside, err := kubernetes.NewForConfig(s.Config(pair))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 3)
	watching(t, inside, "inside", ended)
	watching(t, outside, "outside", ended)
	following(t, s, outside, ended)

	began := time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("closing took %s", took)
	}
	for range cap(ended) {
		select {
		case <-ended:
		case <-ctx.Done():
			t.Fatal("something goes on after the server's end")
		}
	}
	select {
	case <-s.Done():
	default:
		t.Error("it is not done")
	}
	err = inside.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces").MaxRetries(0).Do(ctx).Error()
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("it still answers: %v", err)
	}
}

func TestKeysAndStoreAreTheOwnersOnly(t *testing.T) {
	s := server.Shared(t)
	err := filepath.WalkDir(s.Dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || path == s.Dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			if os.IsNotExist(err) {
				return nil // etcd removes its own temporary files
			}
			return err
		}
		public := entry.Type().IsRegular() && strings.HasSuffix(path, ".crt")
		if !public && entry.Type() != os.ModeSocket && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
