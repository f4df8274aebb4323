package stock_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"muster.dev/muster/internal/control/stock"
	"muster.dev/muster/internal/testkit/server"
)

// recorder keeps the messages of Kubernetes' libraries.
type recorder struct {
	slog.Handler
	mu       sync.Mutex
	messages []string
}

func (r *recorder) Handle(ctx context.Context, record slog.Record) error {
	text := record.Message
	record.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, text)
	return nil
}

// containing returns the messages that contain a text.
func (r *recorder) containing(text string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []string
	for _, m := range r.messages {
		if strings.Contains(m, text) {
			found = append(found, m)
		}
	}
	return found
}

func (r *recorder) WithAttrs([]slog.Attr) slog.Handler { return r }
func (r *recorder) WithGroup(string) slog.Handler      { return r }

func TestNothingWatchesWhatIsNotServed(t *testing.T) {
	s := server.StartServer(t)
	handler := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})
	seen := &recorder{Handler: handler}
	klog.SetSlogLogger(slog.New(seen))
	defer klog.SetSlogLogger(slog.New(handler))

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- stock.Run(ctx, stock.Config{Client: s.Client(), PKI: s.PKI}) }()
	c, err := kubernetes.NewForConfig(s.Client())
	if err != nil {
		t.Fatal(err)
	}
	// Quota is counted when everything that is counted is watched.
	if _, err := c.CoreV1().ResourceQuotas("default").Create(soon(t), &v1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec: v1.ResourceQuotaSpec{Hard: v1.ResourceList{
			v1.ResourcePods: resource.MustParse("1"), v1.ResourceReplicationControllers: resource.MustParse("1")}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "quota to be counted", func() bool {
		q, err := c.CoreV1().ResourceQuotas("default").Get(soon(t), "q", metav1.GetOptions{})
		return err == nil && len(q.Status.Used) == 2
	})
	// Collection works when everything with an owner is watched.
	owner := configMap(t, c, "default", "owner")
	configMap(t, c, "default", "owned", owner)
	if err := c.CoreV1().ConfigMaps("default").Delete(soon(t), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "collection", func() bool { return gone(t, c, "default", "owned") })
	for _, trouble := range []string{"could not find the requested resource", "not yet synced"} {
		for _, message := range seen.containing(trouble) {
			t.Errorf("the log says: %s", message)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestRunNeedsAClient(t *testing.T) {
	if err := stock.Run(context.Background(), stock.Config{}); err == nil {
		t.Error("it ran without one")
	}
}
