package agent

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

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
