package apiserver_test

import (
	"context"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"muster.dev/muster/internal/testkit/server"
)

// crashDir, when set in the environment, makes this binary a server to be killed
// instead of a test run.
const crashDir = "APISERVER_TEST_CRASH_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		serveUntilKilled(dir)
	}
	os.Exit(server.RunTests(m))
}

// patience is how long a test waits for what should happen at once.
const patience = 30 * time.Second

// waitFor repeats check until it holds.
func waitFor(t *testing.T, what string, check func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !check() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s in vain for %s", patience, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// owner is a client with all rights, in process.
func owner(t *testing.T, s *server.Server) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(s.Client())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// soon is a context for calls that must not hang.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
