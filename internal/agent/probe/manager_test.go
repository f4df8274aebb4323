package probe

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"muster.dev/muster/internal/runtime"
)

// scripted is a runtime in which each command's exit code is a matter of the test.
type scripted struct {
	runtime.Runtime

	mu    sync.Mutex
	codes map[string]int32
	err   map[string]error
	runs  map[string][]time.Time
}

func newScripted() *scripted {
	return &scripted{codes: map[string]int32{}, err: map[string]error{}, runs: map[string][]time.Time{}}
}

func (s *scripted) ExecSync(_ context.Context, _ string, command []string, _ time.Duration) (runtime.ExecResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[command[0]] = append(s.runs[command[0]], time.Now())
	return runtime.ExecResult{ExitCode: s.codes[command[0]], Stdout: []byte("said " + command[0])}, s.err[command[0]]
}

func (s *scripted) set(command string, code int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[command] = code
}

func (s *scripted) count(command string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs[command])
}

func probeBy(command string, change func(*v1.Probe)) *v1.Probe {
	probe := &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{command}}},
		PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
	}
	if change != nil {
		change(probe)
	}
	return probe
}

func podWith(container v1.Container) *v1.Pod {
	container.Name = "app"
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"},
		Spec:       v1.PodSpec{Containers: []v1.Container{container}},
	}
}

// world is a Manager in a bubble of fake time, with what it called back.
type world struct {
	t         *testing.T
	runtime   *scripted
	manager   *Manager
	pod       *v1.Pod
	mu        sync.Mutex
	changes   int
	unhealthy []string
}

func inWorld(t *testing.T, container v1.Container, story func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, runtime: newScripted(), pod: podWith(container)}
		w.manager = New(Options{
			Runtime: w.runtime,
			Changed: func(types.UID) { w.mu.Lock(); w.changes++; w.mu.Unlock() },
			Unhealthy: func(_ *v1.Pod, _, message string) {
				w.mu.Lock()
				w.unhealthy = append(w.unhealthy, message)
				w.mu.Unlock()
			},
		})
		defer w.manager.Close()
		story(w)
	})
}

func (w *world) run(id string) {
	w.manager.Sync(w.pod, map[string]Target{"app": {ContainerID: id, StartedAt: time.Now()}})
}

// after lets time pass, and everything that is due happen.
func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) want(started, ready bool, failed string) {
	w.t.Helper()
	state := w.manager.States("u")["app"]
	kind := ""
	if state.Failed != nil {
		kind = state.Failed.Kind
	}
	if state.Started != started || state.Ready != ready || kind != failed {
		w.t.Errorf("state is started %v, ready %v, failed %q; want %v, %v, %q", state.Started, state.Ready, kind, started, ready, failed)
	}
}

func TestWithoutProbesAContainerIsReadyAtOnce(t *testing.T) {
	inWorld(t, v1.Container{}, func(w *world) {
		w.run("1")
		w.want(true, true, "")
	})
}

func TestReadinessFollowsItsThresholds(t *testing.T) {
	container := v1.Container{ReadinessProbe: probeBy("ready", func(p *v1.Probe) { p.InitialDelaySeconds = 5; p.SuccessThreshold = 2 })}
	inWorld(t, container, func(w *world) {
		w.run("1")
		w.after(4 * time.Second)
		if n := w.runtime.count("ready"); n != 0 {
			t.Errorf("probed %d times within the initial delay", n)
		}
		w.after(2 * time.Second)
		w.want(true, false, "")
		w.after(10 * time.Second)
		w.want(true, true, "")
		w.runtime.set("ready", 1)
		w.after(20 * time.Second)
		w.want(true, true, "")
		w.after(10 * time.Second)
		w.want(true, false, "")
		if w.changes != 2 || len(w.unhealthy) != 3 || w.unhealthy[0] != "Readiness probe failed: said ready" {
			t.Errorf("%d changes, events %q", w.changes, w.unhealthy)
		}
	})
}

func TestStartupHoldsTheOthersBack(t *testing.T) {
	container := v1.Container{
		StartupProbe:   probeBy("start", func(p *v1.Probe) { p.FailureThreshold = 5 }),
		ReadinessProbe: probeBy("ready", nil),
		LivenessProbe:  probeBy("live", nil),
	}
	inWorld(t, container, func(w *world) {
		w.runtime.set("start", 1)
		w.run("1")
		w.after(25 * time.Second)
		w.want(false, false, "")
		if n := w.runtime.count("ready") + w.runtime.count("live"); n != 0 {
			t.Errorf("other probes ran %d times before the startup probe succeeded", n)
		}
		w.runtime.set("start", 0)
		w.after(10 * time.Second)
		w.want(true, true, "")
		before := w.runtime.count("start")
		w.after(time.Minute)
		if w.runtime.count("start") != before {
			t.Error("the startup probe went on after it succeeded")
		}
	})
}

func TestStartupThatNeverSucceedsFails(t *testing.T) {
	inWorld(t, v1.Container{StartupProbe: probeBy("start", nil)}, func(w *world) {
		w.runtime.set("start", 1)
		w.run("1")
		w.after(21 * time.Second)
		w.want(false, false, "startup")
	})
}

func TestLivenessFailsOnceAndStopsUntilTheNextRun(t *testing.T) {
	container := v1.Container{LivenessProbe: probeBy("live", func(p *v1.Probe) { p.TerminationGracePeriodSeconds = ptr.To[int64](7) })}
	inWorld(t, container, func(w *world) {
		w.run("1")
		w.after(time.Second)
		w.runtime.set("live", 3)
		w.after(30 * time.Second)
		w.want(true, true, "liveness")
		failed := w.manager.States("u")["app"].Failed
		if failed.Grace == nil || *failed.Grace != 7*time.Second || failed.Message != "said live" {
			t.Errorf("failure is %+v", failed)
		}
		runs := w.runtime.count("live")
		w.after(time.Minute)
		if w.runtime.count("live") != runs {
			t.Error("probing went on after the verdict")
		}
		w.run("2")
		w.want(true, true, "")
		if id := w.manager.States("u")["app"].ContainerID; id != "2" {
			t.Errorf("state speaks of container %s, want 2", id)
		}
	})
}

func TestAProbeThatCannotRunDoesNotCount(t *testing.T) {
	inWorld(t, v1.Container{LivenessProbe: probeBy("live", nil)}, func(w *world) {
		w.runtime.err["live"] = runtime.ErrUnreachable
		w.run("1")
		w.after(5 * time.Minute)
		w.want(true, true, "")
		if len(w.unhealthy) == 0 {
			t.Error("nothing was said of the probes that could not run")
		}
	})
}

func TestATimeOutIsAFailure(t *testing.T) {
	inWorld(t, v1.Container{LivenessProbe: probeBy("live", nil)}, func(w *world) {
		w.runtime.err["live"] = runtime.ErrTimedOut
		w.run("1")
		w.after(25 * time.Second)
		w.want(true, true, "liveness")
	})
}

func TestWhatWasKnownHoldsAfterARestartOfTheAgent(t *testing.T) {
	container := v1.Container{StartupProbe: probeBy("start", nil), ReadinessProbe: probeBy("ready", func(p *v1.Probe) { p.InitialDelaySeconds = 60 })}
	inWorld(t, container, func(w *world) {
		w.manager.Sync(w.pod, map[string]Target{"app": {ContainerID: "1", StartedAt: time.Now(), Started: true, Ready: true}})
		w.after(time.Second)
		w.want(true, true, "")
		if n := w.runtime.count("start"); n != 0 {
			t.Errorf("the startup probe ran %d times for a container that had started", n)
		}
	})
}

func TestProbesEndWithTheirContainerAndPod(t *testing.T) {
	inWorld(t, v1.Container{LivenessProbe: probeBy("live", nil)}, func(w *world) {
		w.run("1")
		w.after(time.Second)
		w.manager.Sync(w.pod, nil)
		if states := w.manager.States("u"); len(states) != 0 {
			t.Errorf("states of a stopped container: %v", states)
		}
		w.run("2")
		w.after(time.Second)
		w.manager.Remove("u")
		runs := w.runtime.count("live")
		w.after(time.Minute)
		if w.runtime.count("live") != runs || len(w.manager.States("u")) != 0 {
			t.Error("probing went on after Remove")
		}
	})
}
