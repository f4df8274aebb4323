// Package server gives other rooms' tests a real API server: etcd and all, in
// the test's own process, on loopback and a free port, gone when the test is.
// It runs no controllers; a test that wants them starts them.
//
// Linking it takes seconds, so tests that need it stand in few packages, and
// tests that can share one server do so by namespaces (Shared).
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"muster.dev/muster/internal/apiserver"
	"muster.dev/muster/internal/pki"
	"muster.dev/muster/internal/store"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = time.Minute
)

// Server is a running control plane without controllers.
type Server struct {
	*apiserver.Server
	// PKI makes certificates that the server accepts.
	PKI *pki.PKI
	// Store is what stands behind the server.
	Store *store.Store
	// Dir is its data directory; a new server on it goes on where this one ended.
	Dir string
}

// StartServer starts a server in the test's temporary directory and ends it
// with the test.
func StartServer(t testing.TB) *Server {
	t.Helper()
	s, err := Open(t.TempDir(), apiserver.Options{})
	if err != nil {
		t.Fatalf("starting an API server: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	return s
}

// quiet keeps the libraries' own messages out of a test's output, but for errors.
var quiet = sync.OnceFunc(func() {
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
})

// Open starts a server on a data directory. Options are filled in where empty.
func Open(dir string, o apiserver.Options) (*Server, error) {
	quiet()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	certificates, err := pki.Open(filepath.Join(dir, "pki"), time.Now)
	if err != nil {
		return nil, err
	}
	st, err := store.Start(ctx, store.Options{Dir: filepath.Join(dir, "store")})
	if err != nil {
		return nil, err
	}
	o.PKI, o.Etcd = certificates, []string{st.Endpoint()}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	api, err := apiserver.Start(ctx, o)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return &Server{Server: api, PKI: certificates, Store: st, Dir: dir}, nil
}

// Close ends the API server, then the store.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		return err
	}
	return s.Store.Close()
}

// Kubeconfig writes a kubeconfig of the cluster's owner into the test's
// temporary directory and returns its name.
func (s *Server) Kubeconfig(t testing.TB) string {
	t.Helper()
	pair, err := s.PKI.Admin()
	if err != nil {
		t.Fatal(err)
	}
	return s.kubeconfig(t, pair)
}

// NodeKubeconfig is the same for the agent of a node.
func (s *Server) NodeKubeconfig(t testing.TB, node string) string {
	t.Helper()
	pair, err := s.PKI.AgentClient(node)
	if err != nil {
		t.Fatal(err)
	}
	return s.kubeconfig(t, pair)
}

func (s *Server) kubeconfig(t testing.TB, pair pki.Pair) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := s.PKI.WriteKubeconfig(file, s.URL, pair); err != nil {
		t.Fatal(err)
	}
	return file
}

// Config is a client configuration over TLS with a certificate of the cluster.
func (s *Server) Config(pair pki.Pair) *rest.Config {
	return &rest.Config{
		Host: s.URL,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: s.CA, CertFile: pair.CertFile, KeyFile: pair.KeyFile,
		},
		QPS: -1,
	}
}

var shared struct {
	sync.Mutex
	server *Server
}

// Shared is one server for all tests of a binary, started by the first that asks.
// RunTests ends it.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		dir, err := os.MkdirTemp("", "muster-test-")
		if err == nil {
			shared.server, err = Open(dir, apiserver.Options{})
		}
		if err != nil {
			t.Fatalf("starting the shared API server: %v", err)
		}
	}
	return shared.server
}

// RunTests runs a binary's tests and then ends the shared server, for TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(server.RunTests(m)) }
func RunTests(m *testing.M) int {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		return code
	}
	if err := errors.Join(shared.server.Close(), os.RemoveAll(shared.server.Dir)); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the shared API server:", err)
		return max(code, 1)
	}
	return code
}
