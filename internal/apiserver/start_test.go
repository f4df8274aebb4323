package apiserver_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"

	"muster.dev/muster/internal/apiserver"
	"muster.dev/muster/internal/pki"
	"muster.dev/muster/internal/store"
	"muster.dev/muster/internal/testkit/server"
)

func TestStartSaysWhatIsWrong(t *testing.T) {
	s := server.Shared(t)
	for _, c := range []struct {
		name string
		o    apiserver.Options
		want string
	}{
		{"port taken", apiserver.Options{Listen: strings.TrimPrefix(s.URL, "https://")}, "address already in use"},
		{"every address and none to advertise", apiserver.Options{Listen: "0.0.0.0:0"}, "needs an address to advertise"},
		{"bad Service range", apiserver.Options{ServiceCIDR: "10.0.0/8"}, `reading the Service range "10.0.0/8"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			started, err := server.Open(t.TempDir(), c.o)
			if err == nil {
				started.Close()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

func TestStoppingWhileStartingIsAnErrorOnly(t *testing.T) {
	// The whole test binary would end if a start hook were interrupted.
	dir := t.TempDir()
	certificates, err := pki.Open(filepath.Join(dir, "pki"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := store.Start(soon(t), store.Options{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = apiserver.Start(ctx, apiserver.Options{PKI: certificates, Etcd: []string{objects.Endpoint()}, Listen: "127.0.0.1:0"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
	if err := objects.Close(); err != nil {
		t.Error(err)
	}
	if err := open(t, dir).Close(); err != nil {
		t.Errorf("the next start: %v", err)
	}
}

// complaint is a health check that fails.
type complaint struct{}

func (complaint) Name() string              { return "complaint" }
func (complaint) Check(*http.Request) error { return errors.New("nearly full") }

func TestAWarningIsShownAndDoesNotStopTheService(t *testing.T) {
	s, err := server.Open(t.TempDir(), apiserver.Options{
		Listen: ":0", Advertise: hostAddress(t), Health: []healthz.HealthChecker{complaint{}}})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/readyz": 200, "/livez": 200, "/healthz": 500} {
		if got := ask(t, s, path, "", nil); got != want {
			t.Errorf("%s answers %d, want %d", path, got, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
