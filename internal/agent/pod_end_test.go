package agent

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/runtime"
	"muster.dev/muster/internal/runtime/fake"
)

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

// A pull that takes for ever does not keep a Pod that is being deleted.
func TestDeletionDoesNotWaitForAPull(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.runtime.SetScript(fake.Script{Container: n.started, Pull: func(string, int) fake.Pull {
			return fake.Pull{Delay: time.Hour}
		}})
		defer n.start(t)()
		pod := testPod(apps("main"))
		useImage(pod, "example.test/huge:1")
		n.api.create(t, pod)
		n.awaitEvent(t, pod, "Pulling")
		n.api.delete(t, pod, 30)
		began := time.Now()
		n.awaitDisk(t, pod, time.Minute, func(d disk) bool { return d == disk{} })
		if took := time.Since(began); took > time.Second {
			t.Errorf("a Pod without containers took %v to end", took)
		}
	})
}
