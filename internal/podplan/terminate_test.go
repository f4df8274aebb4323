package podplan

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/reason"
)

// C75: apps first, then sidecars in reverse order; one grace period for all, and
// two seconds at least for the late ones.
func TestC75TerminationOrderAndBudget(t *testing.T) {
	s := newScene(always, "sidecar s", "init a", "sidecar r", "app x", "app y")
	s.starts("s")
	s.runs("a", 0)
	s.starts("r")
	s.starts("x")
	s.starts("y")
	s.delete(10 * time.Second)
	d := s.want(t, "stop x0 10s", "stop y0 10s")
	if got, want := d.Actions[0].Message, "Stopping container x"; got != want || d.Actions[0].Reason != "Killing" {
		t.Errorf("event %s %q, want Killing %q", d.Actions[0].Reason, got, want)
	}
	want := reason.Reason{Code: reason.ContainersStopping, Object: "x, y", Asked: "10s"}
	if len(d.Reasons) != 1 || d.Reasons[0] != want {
		t.Errorf("reasons %v, want %v", d.Reasons, want)
	}
	s.pass(3 * time.Second)
	s.ends("y", 143)
	s.want(t, "stop x0 7s") // y is not restarted
	s.pass(2 * time.Second)
	s.ends("x", 143)
	s.want(t, "stop r0 5s")
	s.pass(4 * time.Second)
	s.ends("r", 137)
	s.want(t, "stop s0 2s") // late: one second is left, it gets two
	s.wantPhase(t, v1.PodRunning)
	s.pass(2 * time.Second)
	s.ends("s", 137)
	s.want(t, "stop sandbox s0")
	s.loseSandbox()
	if d := s.want(t, "Release"); !d.Terminal {
		t.Error("not terminal")
	}
	s.wantPhase(t, v1.PodFailed)
}

// C26: a grace period of 0 still leaves a container two seconds.
func TestC26GraceZeroLeavesTwoSeconds(t *testing.T) {
	for _, removed := range []bool{false, true} {
		s := newScene(always, "app x")
		s.starts("x")
		if removed {
			s.seen.Removed = true
			s.seen.Terminating = &Termination{Since: s.now}
		} else {
			s.delete(0)
		}
		s.want(t, "stop x0 2s")
		s.ends("x", 143)
		s.want(t, "stop sandbox s0")
		s.loseSandbox()
		s.want(t, "Release")
	}
}

func TestRunningInitStepIsStoppedAndNothingStartsAfterIt(t *testing.T) {
	s := newScene(always, "sidecar s", "init a", "init b", "app x")
	s.starts("s")
	s.starts("a")
	s.delete(30 * time.Second)
	s.want(t, "stop a0 30s")
	s.ends("a", 0)
	s.want(t, "stop s0 30s")
	s.ends("s", 0)
	s.want(t, "stop sandbox s0")
	s.loseSandbox()
	s.want(t, "Release")
	status := s.wantPhase(t, v1.PodFailed)
	if b := status.InitContainerStatuses[2]; b.State.Waiting == nil {
		t.Errorf("step that never ran: %+v", b.State)
	}
}

func TestPodDeletedBeforeAnythingRan(t *testing.T) {
	s := newScene(always, "app x")
	s.seen.Sandboxes, s.seen.Volumes = nil, Preparation{}
	s.delete(30 * time.Second)
	s.want(t, "Release")
}

func TestDeletionNotYetSeenByTheJournal(t *testing.T) {
	s := newScene(always, "app x")
	s.starts("x")
	now := metav1.NewTime(s.now)
	s.pod.DeletionTimestamp = &now
	s.want(t, "stop x0 30s")
}

func TestEndedByDeletionSaysHowItsContainersEnded(t *testing.T) {
	for code, phase := range map[int32]v1.PodPhase{0: v1.PodSucceeded, 143: v1.PodFailed} {
		s := newScene(always, "app x")
		s.starts("x")
		s.delete(30 * time.Second)
		s.ends("x", code)
		s.wantPhase(t, v1.PodRunning)
		s.loseSandbox()
		s.wantPhase(t, phase)
	}
}

func TestProbeFailures(t *testing.T) {
	own := 5 * time.Second
	nothing := time.Duration(0)
	for _, row := range []struct {
		name    string
		policy  v1.RestartPolicy
		failure ProbeFailure
		want    string
		message string
	}{
		{"liveness", always, ProbeFailure{Kind: "liveness"}, "stop x0 30s", "Container x failed liveness probe, will be restarted"},
		{"startup", onFailure, ProbeFailure{Kind: "startup"}, "stop x0 30s", "Container x failed startup probe, will be restarted"},
		{"under Never", never, ProbeFailure{Kind: "liveness"}, "stop x0 30s", "Container x failed liveness probe"},
		{"the probe's own grace", always, ProbeFailure{Kind: "liveness", Grace: &own}, "stop x0 5s", "Container x failed liveness probe, will be restarted"},
		{"no grace", always, ProbeFailure{Kind: "liveness", Grace: &nothing}, "stop x0 2s", "Container x failed liveness probe, will be restarted"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(row.policy, "app x")
			s.starts("x")
			s.seen.Probes["x"] = ProbeState{ContainerID: "other", Failed: &row.failure}
			s.want(t)
			s.seen.Probes["x"] = ProbeState{ContainerID: "x0", Started: true, Failed: &row.failure}
			d := s.want(t, row.want)
			if got := d.Actions[0].Message; got != row.message {
				t.Errorf("message %q, want %q", got, row.message)
			}
			s.seen.Volumes = Preparation{} // an agent that has just started
			s.want(t, row.want, "PrepareVolumes")
		})
	}
}

// TestActiveDeadlineOfWhatNeverRestarts: what the deadline stopped is over too, but
// the deadline is why; what had ended before it keeps its own end.
func TestActiveDeadlineOfWhatNeverRestarts(t *testing.T) {
	for _, row := range []struct {
		name   string
		kind   string
		code   int32
		after  time.Duration // from the Pod's start to the end of its container
		phase  v1.PodPhase
		reason string
	}{
		{"app stopped", "app", 137, 6 * time.Second, v1.PodFailed, "DeadlineExceeded"},
		{"app stopped, and ended well", "app", 0, 6 * time.Second, v1.PodFailed, "DeadlineExceeded"},
		{"init step stopped", "init", 137, 6 * time.Second, v1.PodFailed, "DeadlineExceeded"},
		{"app done in time", "app", 0, 3 * time.Second, v1.PodSucceeded, ""},
		{"app failed in time", "app", 1, 3 * time.Second, v1.PodFailed, ""},
		{"init step failed in time", "init", 1, 3 * time.Second, v1.PodFailed, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(never, row.kind+" c")
			if row.kind == "init" {
				s.contain("app", "x")
				s.seen.Images["x"] = ImageState{Present: true, PulledFor: -1}
			}
			seconds, start := int64(5), metav1.NewTime(t0)
			s.pod.Spec.ActiveDeadlineSeconds, s.pod.Status.StartTime = &seconds, &start
			s.starts("c")
			s.pass(row.after)
			s.ends("c", row.code)
			s.pass(10 * time.Second)
			s.seen.Sandboxes[0].Ready, s.seen.Sandboxes[0].Stopped = false, true
			if status := s.wantPhase(t, row.phase); status.Reason != row.reason {
				t.Errorf("reason %q, want %q", status.Reason, row.reason)
			}
		})
	}
}

func TestActiveDeadline(t *testing.T) {
	s := newScene(always, "sidecar s", "app x")
	seconds := int64(60)
	start := metav1.NewTime(t0)
	s.pod.Spec.ActiveDeadlineSeconds, s.pod.Status.StartTime = &seconds, &start
	s.starts("s")
	s.starts("x")
	s.pass(20 * time.Second)
	s.wantIn(t, 40*time.Second)
	s.pass(45 * time.Second)
	s.want(t, "stop x0 25s")
	if status := s.wantPhase(t, v1.PodRunning); status.Reason != "" {
		t.Errorf("reason %q while it runs", status.Reason)
	}
	s.ends("x", 143)
	s.want(t, "stop s0 25s")
	s.ends("s", 143)
	s.loseSandbox()
	s.want(t, "Release")
	status := s.wantPhase(t, v1.PodFailed)
	if status.Reason != "DeadlineExceeded" || status.Message != "Pod was active on the node longer than the specified deadline" {
		t.Errorf("reason %q, message %q", status.Reason, status.Message)
	}
	s.delete(5 * time.Second)
	if status := s.wantPhase(t, v1.PodFailed); status.Reason != "DeadlineExceeded" {
		t.Errorf("reason %q after the deletion", status.Reason)
	}
}

func TestRejectedPod(t *testing.T) {
	s := newScene(always, "init a", "app x")
	s.seen.Sandboxes, s.seen.SandboxAttempts, s.seen.Volumes = nil, 0, Preparation{}
	s.seen.Rejected = &reason.Reason{Code: "OutOfcpu"}
	if d := s.want(t, "Release"); !d.Terminal {
		t.Error("not terminal")
	}
	status := s.wantPhase(t, v1.PodFailed)
	if status.Reason != "OutOfcpu" || status.Message != "Pod was rejected: "+s.seen.Rejected.Text() {
		t.Errorf("reason %q, message %q", status.Reason, status.Message)
	}
	if status.ContainerStatuses != nil || status.InitContainerStatuses != nil {
		t.Error("a Pod that was refused has container statuses")
	}
}

func TestPodTheAPISaysHasEndedIsStopped(t *testing.T) {
	s := newScene(always, "app x")
	s.starts("x")
	s.pod.Status.Phase, s.pod.Status.Reason, s.pod.Status.Message = v1.PodFailed, "Evicted", "why"
	s.want(t, "stop x0 30s")
	if status := s.wantPhase(t, v1.PodFailed); status.Reason != "Evicted" || status.Message != "why" {
		t.Errorf("reason %q, message %q", status.Reason, status.Message)
	}
}

func TestEvictionByTheAgent(t *testing.T) {
	s := newScene(always, "app x")
	s.starts("x")
	s.seen.Terminating = &Termination{Since: s.now, Grace: 30 * time.Second, Why: "Evicted", Message: "The node was low on resource: memory."}
	s.want(t, "stop x0 30s")
	s.ends("x", 0)
	s.loseSandbox()
	if status := s.wantPhase(t, v1.PodFailed); status.Reason != "Evicted" {
		t.Errorf("reason %q", status.Reason)
	}
}

// The runtime may still be about to start it.
func TestContainerMadeButNotStartedIsRemovedBeforeTheRelease(t *testing.T) {
	s := newScene(always, "app x")
	s.starts("x").State = RunCreated
	s.delete(0)
	s.want(t, "stop sandbox s0")
	s.loseSandbox()
	if d := s.want(t, "remove x0"); d.Terminal {
		t.Error("terminal too early")
	}
	s.attempt("x").State, s.attempt("x").Gone = RunUnknown, true
	s.want(t, "Release")
}

func TestRejectedPodWithASandboxLeft(t *testing.T) {
	s := newScene(always, "app x")
	s.seen.Rejected = &reason.Reason{Code: "OutOfcpu"}
	s.want(t, "stop sandbox s0")
	ready := condition(s.wantPhase(t, v1.PodPending), v1.ContainersReady)
	if ready.Status != v1.ConditionFalse || ready.Reason != "UnknownContainerStatuses" {
		t.Errorf("ContainersReady: %+v", ready)
	}
}

func TestDefaultsOfAPodThatNoAPIHasSeen(t *testing.T) {
	s := newScene("", "app x")
	s.pod.Spec.TerminationGracePeriodSeconds = nil
	s.container("x").ImagePullPolicy = ""
	s.runs("x", 0)
	s.want(t, "start x#1")
	s.starts("x")
	s.seen.Removed = true
	s.want(t, "stop x1 30s")
}
