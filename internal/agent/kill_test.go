package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
	"muster.dev/muster/internal/runtime/fake"
)

var errKilled = errors.New("the agent was killed")

// mortal is the runtime as seen by an agent that is killed at its nth change to
// it, before or after the change takes effect. From then on nothing the agent
// does reaches the runtime.
type mortal struct {
	runtime.Runtime
	killed chan struct{}
	lag    func() time.Duration // how long a read is on its way; nil: no time

	mu    sync.Mutex
	left  int
	after bool
}

// change does one change to the runtime, unless the agent dies before it.
func (m *mortal) change(do func() error) error {
	m.mu.Lock()
	m.left--
	dies, dead := m.left == 0, m.left < 0
	m.mu.Unlock()
	if dead || (dies && !m.after) {
		if dies {
			close(m.killed)
		}
		return errKilled
	}
	err := do()
	if dies {
		close(m.killed)
		return errKilled
	}
	return err
}

func (m *mortal) Pod(ctx context.Context, uid types.UID) (runtime.Pod, error) {
	if m.dead() {
		return runtime.Pod{}, errKilled
	}
	found, err := m.Runtime.Pod(ctx, uid)
	if m.lag != nil {
		time.Sleep(m.lag())
	}
	return found, err
}

func (m *mortal) RunSandbox(ctx context.Context, config *cri.PodSandboxConfig, handler string) (id string, err error) {
	err = m.change(func() error { id, err = m.Runtime.RunSandbox(ctx, config, handler); return err })
	return id, err
}

func (m *mortal) StopSandbox(ctx context.Context, id string) error {
	return m.change(func() error { return m.Runtime.StopSandbox(ctx, id) })
}

func (m *mortal) RemoveSandbox(ctx context.Context, id string) error {
	return m.change(func() error { return m.Runtime.RemoveSandbox(ctx, id) })
}

func (m *mortal) CreateContainer(ctx context.Context, sandbox string, c *cri.ContainerConfig, s *cri.PodSandboxConfig) (id string, err error) {
	err = m.change(func() error { id, err = m.Runtime.CreateContainer(ctx, sandbox, c, s); return err })
	return id, err
}

func (m *mortal) StartContainer(ctx context.Context, id string) error {
	return m.change(func() error { return m.Runtime.StartContainer(ctx, id) })
}

func (m *mortal) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	return m.change(func() error { return m.Runtime.StopContainer(ctx, id, grace) })
}

func (m *mortal) RemoveContainer(ctx context.Context, id string) error {
	return m.change(func() error { return m.Runtime.RemoveContainer(ctx, id) })
}

// TestKilledAnywhere kills the agent at every change it makes to the runtime, and
// starts another: each step runs once in its sandbox, in order, counts are right,
// and a deletion comes to its end.
func TestKilledAnywhere(t *testing.T) {
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			reached := false
			t.Run(fmt.Sprintf("at change %d, after it %v", at, after), func(t *testing.T) {
				inBubble(t, func(t *testing.T, n *testNode) { reached = surviveKill(t, n, at, after) })
			})
			if !reached {
				break
			}
		}
	}
}

// surviveKill runs one Pod through its life with one kill; it returns false when
// that life had fewer changes.
func surviveKill(t *testing.T, n *testNode, at int, after bool) (reached bool) {
	n.script = endsAfter(2*time.Second, 0, "a", "b")
	m := &mortal{Runtime: n.runtime, left: at, after: after, killed: make(chan struct{})}
	config := n.config
	config.Runtime = m
	first := n.startOn(t, config)
	stopped := make(chan func(), 1)
	go func() {
		<-m.killed
		first()
		time.Sleep(500 * time.Millisecond)
		stopped <- n.startOn(t, n.config)
	}()
	time.Sleep(100 * time.Millisecond)
	pod := testPod(inits("a", "b"), apps("main"))
	n.api.create(t, pod)
	got := n.await(t, pod, time.Minute, "Ready", ready)
	checkOnce(t, n, got)
	n.api.delete(t, pod, 5)
	n.awaitDisk(t, pod, time.Minute, func(d disk) bool { return d == disk{} })
	if held := n.held(t, pod); len(held.Sandboxes) != 0 || n.api.get(pod) != nil {
		t.Errorf("left over: %+v", held)
	}
	reached = m.dead()
	if !reached {
		close(m.killed)
	}
	(<-stopped)()
	return reached
}

// dead says that the kill has happened.
func (m *mortal) dead() bool {
	select {
	case <-m.killed:
		return true
	default:
		return false
	}
}

// checkOnce says whether each step ran once in the sandbox that became Ready, and
// the app only after both. A kill while the sandbox or a container was being made
// may cost a sandbox or a restart count, but never an order.
func checkOnce(t *testing.T, n *testNode, pod *v1.Pod) {
	t.Helper()
	var names []string
	for _, start := range n.order() {
		name, _, _ := strings.Cut(start, "/")
		names = append(names, name)
	}
	if want := []string{"a", "b", "main"}; !slices.Equal(names, want) {
		t.Errorf("started %v, want each of %v once", n.order(), want)
	}
	for _, s := range pod.Status.InitContainerStatuses {
		if s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 || s.RestartCount != 0 {
			t.Errorf("step %s: %+v", s.Name, s)
		}
	}
}

// blindable is a mortal runtime that shows nothing more once it is blind: a start
// that is broken off by its caller's death is never seen by that caller.
type blindable struct {
	*mortal
	blind atomic.Bool
}

func (b *blindable) Pod(ctx context.Context, uid types.UID) (runtime.Pod, error) {
	found, err := b.mortal.Pod(ctx, uid)
	if b.blind.Load() {
		return runtime.Pod{}, errKilled
	}
	return found, err
}

// TestStartThatTheKillBrokeOff: the runtime takes a start back when the agent that
// asked for it is killed. The step runs all the same, also in a Pod that never
// restarts anything, and counts no restart; a start that fails by itself counts.
func TestStartThatTheKillBrokeOff(t *testing.T) {
	const firstStart = 3 // after the sandbox and the container
	for _, killed := range []bool{true, false} {
		t.Run(fmt.Sprintf("killed %t", killed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *testNode) {
				m := &blindable{mortal: &mortal{Runtime: n.runtime, left: firstStart, after: true, killed: make(chan struct{})}}
				refused := false
				n.script = func(s fake.Start) fake.Run {
					if s.Config.Metadata.Name == "a" && !refused {
						refused = true
						m.blind.Store(true)
						return fake.Run{Refusal: errors.New("context canceled")}
					}
					return endsAfter(time.Second, 0, "a")(s)
				}
				config := n.config
				if killed {
					config.Runtime = m
				}
				stop := n.startOn(t, config)
				pod := testPod(inits("a"), apps("main"), func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyNever })
				n.api.create(t, pod)
				if !killed {
					n.await(t, pod, time.Minute, "Failed", inPhase(v1.PodFailed))
					stop()
					return
				}
				<-m.killed
				stop()
				defer n.start(t)()
				got := n.await(t, pod, time.Minute, "Ready", ready)
				if order := n.order(); !slices.Equal(order, []string{"a/0", "a/0", "main/0"}) {
					t.Errorf("started %v", order)
				}
				if step := got.Status.InitContainerStatuses[0]; step.RestartCount != 0 {
					t.Errorf("the step counts a restart: %+v", step)
				}
			})
		})
	}
}
