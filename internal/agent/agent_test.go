package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/internal/runtime"
	"muster.dev/muster/internal/runtime/fake"
)

func TestInitStepsInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.script = endsAfter(3*time.Second, 0, "a", "b", "c")
		defer n.start(t)()
		pod := testPod(inits("a", "b", "c"), apps("main"))
		n.api.create(t, pod)
		began := time.Now()
		got := n.await(t, pod, time.Minute, "Ready", ready)
		if took := time.Since(began); took > 9*time.Second+200*time.Millisecond {
			t.Errorf("three steps of 3 s took %v: something was polled for", took)
		}
		if want := []string{"a/0", "b/0", "c/0", "main/0"}; !slices.Equal(n.order(), want) {
			t.Errorf("started %v, want %v", n.order(), want)
		}
		if got.Status.Phase != v1.PodRunning || got.Status.HostIP != "192.0.2.1" || got.Status.PodIP == "" {
			t.Errorf("status: %s", describe(got))
		}
	})
}

// A step that fails is tried again, immediately the first time and then after 10,
// 20, 40 s, and nothing after it starts before it has ended with 0.
func TestFailingStepIsRetried(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.script = func(s fake.Start) fake.Run {
			if s.Config.Metadata.Name == "a" {
				return fake.Run{Ends: true, After: time.Second, ExitCode: int32(max(0, 3-int(s.Attempt)))}
			}
			return fake.Run{}
		}
		defer n.start(t)()
		pod := testPod(inits("a"), apps("main"))
		n.api.create(t, pod)
		began := time.Now()
		got := n.await(t, pod, time.Minute, "Ready", ready)
		if took := time.Since(began); took < 34*time.Second || took > 35*time.Second {
			t.Errorf("four runs of 1 s with back-off 0, 10 and 20 s took %v", took)
		}
		if want := []string{"a/0", "a/1", "a/2", "a/3", "main/0"}; !slices.Equal(n.order(), want) {
			t.Errorf("started %v, want %v", n.order(), want)
		}
		if s := got.Status.InitContainerStatuses[0]; s.RestartCount != 3 || s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
			t.Errorf("status of the step: %+v", s)
		}
	})
}

func TestFailedStepEndsAPodThatNeverRestarts(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.script = both(endsAfter(time.Second, 0, "a"), endsAfter(time.Second, 7, "b"))
		defer n.start(t)()
		pod := testPod(inits("a", "b", "c"), apps("main"), never)
		n.api.create(t, pod)
		got := n.await(t, pod, time.Minute, "Failed", inPhase(v1.PodFailed))
		if want := []string{"a/0", "b/0"}; !slices.Equal(n.order(), want) {
			t.Errorf("started %v, want %v", n.order(), want)
		}
		if s := got.Status.InitContainerStatuses[1]; s.State.Terminated == nil || s.State.Terminated.ExitCode != 7 {
			t.Errorf("status of the failed step: %+v", s)
		}
		n.awaitDisk(t, got, time.Minute, func(d disk) bool { return !d.folder && d.journal })
	})
}

// A sandbox that is lost takes everything with it: every step runs again, in order.
func TestLostSandboxStartsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.script = endsAfter(time.Second, 0, "a", "b")
		defer n.start(t)()
		pod := testPod(inits("a", "b"), apps("main"))
		n.api.create(t, pod)
		n.await(t, pod, time.Minute, "Ready", ready)
		n.runtime.LoseSandbox(n.held(t, pod).Sandboxes[0].ID)
		synctest.Wait()
		got := n.await(t, pod, time.Minute, "Ready again", func(p *v1.Pod) bool {
			return ready(p) && p.Status.ContainerStatuses[0].RestartCount == 1
		})
		if want := []string{"a/0", "b/0", "main/0", "a/1", "b/1", "main/1"}; !slices.Equal(n.order(), want) {
			t.Errorf("started %v, want %v", n.order(), want)
		}
		if sandboxes := n.held(t, pod).Sandboxes; sandboxes[0].Attempt != 1 {
			t.Errorf("the new sandbox has number %d", sandboxes[0].Attempt)
		}
		for _, s := range got.Status.InitContainerStatuses {
			if s.RestartCount != 1 {
				t.Errorf("step %s was restarted %d times", s.Name, s.RestartCount)
			}
		}
	})
}

// A finished step whose container somebody removed does not run again.
func TestRemovedStepStaysFinished(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.script = endsAfter(time.Second, 0, "a")
		stop := n.start(t)
		pod := testPod(inits("a", "b"), apps("main"))
		n.api.create(t, pod)
		n.await(t, pod, time.Minute, "in its second step", func(p *v1.Pod) bool {
			return p.Status.InitContainerStatuses != nil && p.Status.InitContainerStatuses[1].State.Running != nil
		})
		stop()
		for _, c := range n.held(t, pod).Containers {
			if c.Name == "a" {
				if err := n.runtime.RemoveContainer(t.Context(), c.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		n.script = endsAfter(time.Second, 0, "a", "b")
		defer n.start(t)()
		n.kill(t, pod, "b", 0)
		got := n.await(t, pod, time.Minute, "Ready", ready)
		if want := []string{"a/0", "b/0", "main/0"}; !slices.Equal(n.order(), want) {
			t.Errorf("started %v, want %v", n.order(), want)
		}
		if s := got.Status.InitContainerStatuses[0]; s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 || s.RestartCount != 0 {
			t.Errorf("status of the removed step: %+v", s)
		}
	})
}

// A slow API holds up statuses, never the Pod.
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

// Someone else writes to the status all the time: what they wrote stays, and so
// does what the agent has to say.
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

// The status says how the Pod ended before its object goes.
func TestDeletionIsToldBeforeTheObjectGoes(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.script = func(fake.Start) fake.Run { return fake.Run{StopDelay: 4 * time.Second, StopCode: 3} }
		var last *v1.Pod
		n.api.before(func(p *v1.Pod) error { last = p.DeepCopy(); return nil })
		defer n.start(t)()
		pod := testPod(apps("main"))
		n.api.create(t, pod)
		n.await(t, pod, time.Minute, "Ready", ready)
		n.api.delete(t, pod, 30)
		began := time.Now()
		n.await(t, pod, time.Minute, "gone", isGone)
		if took := time.Since(began); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("ending took %v, the container needed 4 s", took)
		}
		if s := last.Status.ContainerStatuses[0]; s.State.Terminated == nil || s.State.Terminated.ExitCode != 3 {
			t.Errorf("the last status says %+v", s)
		}
		n.awaitDisk(t, pod, time.Minute, func(d disk) bool { return d == disk{} })
	})
}

// A container that ignores its signal is killed when the grace period is over; a
// force deletion in between does not wait for that.
func TestForceDeleteOvertakesAGracefulOne(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.script = func(fake.Start) fake.Run { return fake.Run{Stubborn: true} }
		defer n.start(t)()
		pod := testPod(apps("main"))
		n.api.create(t, pod)
		n.await(t, pod, time.Minute, "Ready", ready)
		n.api.delete(t, pod, 600)
		time.Sleep(10 * time.Second)
		n.api.delete(t, pod, 0)
		began := time.Now()
		n.awaitDisk(t, pod, time.Minute, func(d disk) bool { return d == disk{} })
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the force deletion took %v", took)
		}
		if held := n.held(t, pod); len(held.Sandboxes) != 0 {
			t.Errorf("left in the runtime: %+v", held)
		}
	})
}

// An object that is gone at once still gives its containers their grace.
func TestRemovedObjectEndsWithGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.script = func(fake.Start) fake.Run { return fake.Run{StopDelay: 7 * time.Second} }
		defer n.start(t)()
		pod := testPod(apps("main"))
		n.api.create(t, pod)
		n.await(t, pod, time.Minute, "Ready", ready)
		n.api.forceDelete(t, pod)
		began := time.Now()
		n.awaitDisk(t, pod, time.Minute, func(d disk) bool { return d == disk{} })
		if took := time.Since(began); took < 7*time.Second || took > 8*time.Second {
			t.Errorf("ending took %v, the container needed 7 s", took)
		}
	})
}

// An API that is down never ends a Pod; once it answers, what is gone ends.
func TestFailedListEndsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		stop := n.start(t)
		kept, gone := testPod(apps("main")), testPod(apps("main"))
		n.api.create(t, kept)
		n.api.create(t, gone)
		n.await(t, kept, time.Minute, "Ready", ready)
		n.await(t, gone, time.Minute, "Ready", ready)
		stop()
		n.api.forceDelete(t, gone)
		n.api.down(true)
		defer n.start(t)()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		for _, pod := range []*v1.Pod{kept, gone} {
			if held := n.held(t, pod); len(held.Containers) != 1 || held.Containers[0].State != runtime.Running {
				t.Fatalf("while the API is down pod %s became %+v", pod.Name, held.Containers)
			}
		}
		n.api.down(false)
		n.awaitDisk(t, gone, 2*time.Minute, func(d disk) bool { return d == disk{} })
		if held := n.held(t, gone); len(held.Sandboxes) != 0 {
			t.Errorf("left of the Pod that is gone: %+v", held)
		}
		if held := n.held(t, kept); len(held.Containers) != 1 || held.Containers[0].State != runtime.Running {
			t.Errorf("the Pod that stays became %+v", held.Containers)
		}
		if want := []string{"main/0", "main/0"}; !slices.Equal(n.order(), want) {
			t.Errorf("started %v, want %v", n.order(), want)
		}
	})
}

func TestImagesArePulledOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.runtime.SetScript(fake.Script{Container: n.started, Pull: func(_ string, nth int) fake.Pull {
			if nth == 1 {
				return fake.Pull{Delay: time.Second, Failure: errors.New("no route to registry")}
			}
			return fake.Pull{Delay: 3 * time.Second}
		}})
		defer n.start(t)()
		pods := []*v1.Pod{testPod(apps("main")), testPod(apps("main"))}
		for _, pod := range pods {
			useImage(pod, "example.test/other:1")
			n.api.create(t, pod)
		}
		n.await(t, pods[0], time.Minute, "waiting as ErrImagePull", func(p *v1.Pod) bool {
			return waitingReason(p) == "ErrImagePull"
		})
		n.await(t, pods[0], time.Minute, "waiting as ImagePullBackOff", func(p *v1.Pod) bool {
			return waitingReason(p) == "ImagePullBackOff"
		})
		for _, pod := range pods {
			n.await(t, pod, time.Minute, "Ready", ready)
		}
		if pulls := n.runtime.Pulls("example.test/other:1"); pulls != 2 {
			t.Errorf("two Pods with one image pulled it %d times, one failure included", pulls)
		}
	})
}

func TestNodeRefusesWhatDoesNotFit(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		defer n.start(t)()
		first := testPod(apps("main"), hostPort(8080))
		n.api.create(t, first)
		n.await(t, first, time.Minute, "Ready", ready)
		for reason, edit := range map[string]func(*v1.Pod){
			"NodePorts": hostPort(8080),
			"OutOfcpu": func(p *v1.Pod) {
				p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1000")}
			},
			"NodeAffinity": func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "elsewhere"} },
		} {
			pod := testPod(apps("main"), edit)
			n.api.create(t, pod)
			got := n.await(t, pod, time.Minute, "refused", inPhase(v1.PodFailed))
			if got.Status.Reason != reason {
				t.Errorf("refused as %s (%s), want %s", got.Status.Reason, got.Status.Message, reason)
			}
		}
		n.api.delete(t, first, 1)
		n.awaitDisk(t, first, time.Minute, func(d disk) bool { return d == disk{} })
		second := testPod(apps("main"), hostPort(8080))
		n.api.create(t, second)
		n.await(t, second, time.Minute, "Ready once the port is free", ready)
	})
}

// A Pod at rest costs next to nothing: no status writes and ever rarer reads.
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

// countingRuntime counts the reads of single Pods.
type countingRuntime struct {
	runtime.Runtime
	reads atomic.Int64
}

func (c *countingRuntime) Pod(ctx context.Context, uid types.UID) (runtime.Pod, error) {
	c.reads.Add(1)
	return c.Runtime.Pod(ctx, uid)
}
