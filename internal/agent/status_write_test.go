package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/internal/runtime"
)

func TestSlowStatusDoesNotHoldThePod(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.script = endsAfter(time.Second, 0, "a", "b", "c")
		n.api.before(func(*v1.Pod) error { time.Sleep(5 * time.Second); return nil })
		defer n.start(t)()
		pod := testPod(inits("a", "b", "c"), apps("main"))
		n.api.create(t, pod)
		time.Sleep(3*time.Second + 100*time.Millisecond)
		synctest.Wait()
		if want := []string{"a/0", "b/0", "c/0", "main/0"}; !slices.Equal(n.order(), want) {
			t.Errorf("after 3.1 s started %v, want %v", n.order(), want)
		}
		n.await(t, pod, 20*time.Second, "Ready", ready)
	})
}

func TestConflictKeepsForeignConditions(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		const gate = v1.PodConditionType("example.com/gate")
		pod := testPod(apps("main"))
		writes := 0
		n.api.before(func(*v1.Pod) error {
			if writes++; writes%2 == 1 {
				n.api.change(t, pod, func(p *v1.Pod) {
					p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == gate })
					p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{
						Type: gate, Status: v1.ConditionTrue, Message: fmt.Sprint(writes),
					})
				})
			}
			return nil
		})
		defer n.start(t)()
		n.api.create(t, pod)
		got := n.await(t, pod, time.Minute, "Ready", ready)
		if !slices.ContainsFunc(got.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == gate }) {
			t.Errorf("the foreign condition is gone: %v", got.Status.Conditions)
		}
	})
}

// TestNewLabelsHoldUpNoStatus: somebody labels the Pod at the very moment of a write.
func TestNewLabelsHoldUpNoStatus(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		pod := testPod(apps("main"))
		var once sync.Once
		n.api.before(func(*v1.Pod) error {
			once.Do(func() { n.api.change(t, pod, func(p *v1.Pod) { p.Labels = map[string]string{"seen": "yes"} }) })
			return nil
		})
		defer n.start(t)()
		n.api.create(t, pod)
		got := n.await(t, pod, 500*time.Millisecond, "Ready", ready)
		if got.Labels["seen"] != "yes" {
			t.Errorf("the label is gone: %v", got.Labels)
		}
	})
}

func TestPodAtRestIsLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.script = endsAfter(time.Second, 0, "a")
		counted := &countingRuntime{Runtime: n.runtime}
		config := n.config
		config.Runtime = counted
		defer n.startOn(t, config)()
		synctest.Wait()
		pod := testPod(inits("a"), apps("main"))
		n.api.create(t, pod)
		n.await(t, pod, time.Minute, "Ready", ready)
		time.Sleep(time.Second)
		writes, reads := n.api.written(), counted.reads.Load()
		if writes > 3 {
			t.Errorf("%d status writes for one step and one app", writes)
		}
		if reads > 30 {
			t.Errorf("%d reads of the runtime for one step and one app", reads)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if more := n.api.written() - writes; more != 0 {
			t.Errorf("%d status writes in an hour at rest", more)
		}
		if more := counted.reads.Load() - reads; more > 130 {
			t.Errorf("%d reads of the runtime in an hour at rest", more)
		}
	})
}

type countingRuntime struct {
	runtime.Runtime
	reads atomic.Int64
}

func (c *countingRuntime) Pod(ctx context.Context, uid types.UID) (runtime.Pod, error) {
	c.reads.Add(1)
	return c.Runtime.Pod(ctx, uid)
}
