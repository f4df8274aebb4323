package control

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"muster.dev/muster/internal/reason"
)

// withLedger is a loop that hands the ledger to the test, and notes on which
// nodes it says that there may be room; "any" stands for anywhere.
func withLedger(ledger **Ledger, news *roomNews) []loop {
	return []loop{{"ledger", setLedger}, {"test", func(_ context.Context, s *shared) (func(context.Context) error, error) {
		*ledger = s.ledger
		s.ledger.OnRoom(news.add)
		return func(ctx context.Context) error { s.ledger.WaitForSync(ctx); return nil }, nil
	}}}
}

type roomNews struct {
	mu    sync.Mutex
	nodes []string
}

func (n *roomNews) add(nodes ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(nodes) == 0 {
		nodes = []string{"any"}
	}
	n.nodes = append(n.nodes, nodes...)
}

// take is the news since the last call.
func (n *roomNews) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.nodes
	n.nodes = nil
	return taken
}

func TestReservedRoomIsSpentOnce(t *testing.T) {
	var ledger *Ledger
	var news roomNews
	inWorld(t, withLedger(&ledger, &news), []runtime.Object{worldNode("a")}, func(w *world) {
		news.take()
		first, second := worldPod("first", "3"), worldPod("second", "3")
		if got := ledger.Reserve(first, "a"); len(got) > 0 {
			t.Fatalf("first: %v", got)
		}
		want := []reason.Reason{{Code: reason.InsufficientResource, Object: "cpu", Asked: "3", Free: "1"}}
		if got := ledger.Reserve(second, "a"); !slices.Equal(got, want) {
			t.Errorf("second: %v", got)
		}
		if got := ledger.Fits(second, "a"); !slices.Equal(got, want) {
			t.Errorf("second fits: %v", got)
		}
		if decision, ok := ledger.Place(second); !ok || decision.Placed() {
			t.Errorf("second is placed: %+v, %v", decision, ok)
		}
		if _, ok := ledger.Place(first); ok {
			t.Error("first, which is decided, is decided on again")
		}
		ledger.Release("default", "first")
		if got := news.take(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("news of the room given back: %v", got)
		}
		if decision, ok := ledger.Place(second); !ok || decision.Node != "a" {
			t.Errorf("second, after the room was given back: %+v, %v", decision, ok)
		}
	})
}

func TestReservationThatIsNeverSeenEnds(t *testing.T) {
	var ledger *Ledger
	var news roomNews
	inWorld(t, withLedger(&ledger, &news), []runtime.Object{worldNode("a")}, func(w *world) {
		lost, seen := worldPod("lost", "1"), worldPod("seen", "1")
		ledger.Reserve(lost, "a")
		w.pass(10 * time.Second)
		ledger.Reserve(seen, "a")
		w.createPod(worldPod("seen", "1", onNode("a")))
		w.pass(19 * time.Second)
		if got := ledger.Fits(worldPod("p", "3"), "a"); len(got) == 0 {
			t.Fatal("the reservation ended too early")
		}
		news.take()
		w.pass(2 * time.Second)
		if got := ledger.Fits(worldPod("p", "3"), "a"); len(got) > 0 {
			t.Errorf("the reservation does not end: %v", got)
		}
		if got := news.take(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("news of the room given back: %v", got)
		}
		w.pass(time.Hour)
		if got := ledger.Fits(worldPod("p", "4"), "a"); len(got) == 0 {
			t.Error("the Pod that was seen lost its room")
		}
	})
}

func TestNewsOfRoom(t *testing.T) {
	var ledger *Ledger
	var news roomNews
	objects := []runtime.Object{worldNode("a"), worldPod("running", "1", readyOn("a")), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}}
	inWorld(t, withLedger(&ledger, &news), objects, func(w *world) {
		cases := []struct {
			name string
			do   func()
			want []string
		}{
			{"a heartbeat", func() {
				w.updateNode("a", func(n *v1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() })
			}, nil},
			{"a new label", func() { w.updateNode("a", func(n *v1.Node) { n.Labels["x"] = "y" }) }, []string{"a"}},
			{"an unbound Pod", func() { w.createPod(worldPod("unbound", "1")) }, nil},
			{"a bound Pod", func() { w.createPod(worldPod("bound", "1", onNode("a"))) }, []string{"a"}},
			{"an unbound Pod goes", func() { w.deletePod("unbound") }, nil},
			{"a bound Pod goes", func() { w.deletePod("bound") }, []string{"a"}},
			{"a namespace is relabelled", func() {
				_, err := w.client.CoreV1().Namespaces().Update(w.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"x": "y"}}}, metav1.UpdateOptions{})
				if err != nil {
					w.Fatal(err)
				}
			}, []string{"any"}},
			{"a node joins", func() {
				if _, err := w.client.CoreV1().Nodes().Create(w.Context(), worldNode("b"), metav1.CreateOptions{}); err != nil {
					w.Fatal(err)
				}
			}, []string{"any"}},
			{"a node goes", func() { w.deleteNode("a") }, []string{"any"}},
		}
		for _, c := range cases {
			news.take()
			c.do()
			w.settle()
			if got := news.take(); !slices.Equal(got, c.want) {
				t.Errorf("%s: news of %v, want %v", c.name, got, c.want)
			}
		}
	})
}
