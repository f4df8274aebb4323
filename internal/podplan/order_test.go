package podplan

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/reason"
)

// TestEphemeralContainersRunOnce: they start as soon as there is a sandbox, beside
// whatever the others do, and never again, in no other sandbox either.
func TestEphemeralContainersRunOnce(t *testing.T) {
	s := newScene(always, "init step", "app x", "ephemeral look")
	s.seen.Images["look"] = ImageState{PulledFor: -1}
	s.want(t, "start step#0", "pull look#0")
	s.starts("step")
	s.seen.Images["look"] = ImageState{Present: true, PulledFor: 0}
	s.want(t, "start look#0")
	s.starts("look")
	s.want(t)
	s.ends("step", 0)
	s.want(t, "start x#0") // what runs beside the steps says nothing of them
	s.starts("x")
	s.ends("look", 1)
	s.want(t)
	s.wantPhase(t, v1.PodRunning)
	s.loseSandbox()
	s.newSandbox()
	s.pass(goodRun)
	s.want(t, "start step#1")
}

// TestEphemeralContainersStopWithThePod: they get the same grace period as the rest.
func TestEphemeralContainersStopWithThePod(t *testing.T) {
	s := newScene(never, "app x", "ephemeral look")
	s.starts("x")
	s.starts("look")
	s.delete(30 * time.Second)
	s.want(t, "stop x0 30s", "stop look0 30s")
}

func TestVolumesThenSandboxThenContainers(t *testing.T) {
	s := newScene(v1.RestartPolicyAlways, "app x")
	s.seen.Volumes, s.seen.Sandboxes, s.seen.SandboxAttempts = Preparation{}, nil, 0
	s.want(t, "PrepareVolumes")
	s.seen.Volumes.Failure = &reason.Reason{Code: reason.ContainerWaiting, Object: "v", Detail: "no such secret"}
	if d := s.want(t, "PrepareVolumes"); len(d.Reasons) != 1 || d.Reasons[0] != *s.seen.Volumes.Failure {
		t.Errorf("reasons %v, want the volumes'", d.Reasons)
	}
	s.seen.Volumes = Preparation{Ready: true}
	s.want(t, "sandbox 0")
	s.newSandbox()
	s.want(t, "start x#0")
}

// C60: no app container before every init step has ended with 0.
func TestC60InitStepsOneByOneThenAppsTogether(t *testing.T) {
	s := newScene(v1.RestartPolicyAlways, "init a", "init b", "app x", "app y")
	s.want(t, "start a#0")
	s.starts("a").State = RunCreated
	s.want(t, "start a#0 as a0")
	s.attempt("a").State = RunRunning
	if d := s.want(t); len(d.Reasons) != 1 || d.Reasons[0].Code != reason.InitRunning {
		t.Errorf("reasons %v, want %s", d.Reasons, reason.InitRunning)
	}
	s.ends("a", 0)
	s.want(t, "start b#0")
	s.runs("b", 1)
	s.want(t, "start b#1")
	s.runs("b", 0)
	s.want(t, "remove b0", "start x#0", "start y#0")
	s.starts("x")
	s.want(t, "remove b0", "start y#0")
}

// C74: an init container that never ends holds the Pod, and the reason says for
// how long.
func TestC74EndlessInitStepIsNamed(t *testing.T) {
	s := newScene(v1.RestartPolicyAlways, "init a", "app x")
	s.starts("a")
	s.pass(7 * time.Minute)
	d := s.want(t)
	want := reason.Reason{Code: reason.InitRunning, Object: "a", Asked: "7m0s"}
	if len(d.Reasons) != 1 || d.Reasons[0] != want {
		t.Errorf("reasons %v, want %v", d.Reasons, want)
	}
	s.wantWaiting(t, "x", "PodInitializing", "")
	s.wantPhase(t, v1.PodPending)
}

func TestFinishedStepNeverRunsAgainInItsSandbox(t *testing.T) {
	s := newScene(v1.RestartPolicyAlways, "init a", "init b", "app x")
	s.runs("a", 0).Gone = true // only the journal remembers it
	s.want(t, "start b#0")
	s.runs("b", 0)

	t.Run("record of the first step lost while the second was made", func(t *testing.T) {
		lost := *s
		lost.seen.Attempts = lost.seen.Attempts[1:]
		lost.want(t, "start x#0")
	})
	t.Run("all records lost once an app container was made", func(t *testing.T) {
		lost := *s
		lost.starts("x")
		lost.seen.Attempts = lost.seen.Attempts[2:]
		lost.want(t)
		status := lost.wantPhase(t, v1.PodRunning)
		if c := status.InitContainerStatuses[0]; !c.Ready || c.State.Terminated == nil {
			t.Errorf("init step after its record was lost: %+v", c)
		}
	})
}

// C57: a new sandbox runs all init steps again, in order, and counts up.
func TestC57NewSandboxRunsAllInitStepsAgain(t *testing.T) {
	s := newScene(v1.RestartPolicyAlways, "init a", "init b", "app x")
	s.runs("a", 0)
	s.runs("b", 0)
	s.starts("x")
	s.wantPhase(t, v1.PodRunning)
	s.pass(time.Minute)
	s.loseSandbox()
	s.want(t, "sandbox 1")
	s.newSandbox()
	s.want(t, "start a#1")
	status := s.wantPhase(t, v1.PodPending)
	if a := status.InitContainerStatuses[0]; a.State.Waiting == nil || a.LastTerminationState.Terminated == nil || a.Ready {
		t.Errorf("status of a step that has to run again: %+v", a)
	}
	s.runs("a", 0)
	s.want(t, "remove a0", "start b#1")
	s.runs("b", 0)
	s.want(t, "remove a0", "remove b0", "start x#1")
	s.starts("x")
	s.want(t, "remove a0", "remove b0")
	if got := s.wantPhase(t, v1.PodRunning).InitContainerStatuses[0].RestartCount; got != 1 {
		t.Errorf("restart count %d, want 1", got)
	}
}

func TestSidecarsStartInOrderAndGateTheNext(t *testing.T) {
	s := newScene(v1.RestartPolicyAlways, "sidecar s", "init a", "sidecar r", "app x")
	s.container("s").StartupProbe = &v1.Probe{}
	s.want(t, "start s#0")
	s.starts("s")
	if d := s.want(t); len(d.Reasons) != 1 || d.Reasons[0].Code != reason.SidecarNotStarted {
		t.Errorf("reasons %v, want %s", d.Reasons, reason.SidecarNotStarted)
	}
	s.seen.Probes["s"] = ProbeState{ContainerID: "another", Started: true}
	s.want(t) // a verdict on another attempt is void
	s.seen.Probes["s"] = ProbeState{ContainerID: "s0", Started: true}
	s.want(t, "start a#0")
	s.runs("a", 0)
	s.want(t, "start r#0")
	s.starts("r") // without a startup probe, running is enough
	s.want(t, "start x#0")
}

func TestSidecarThatEndsDuringInitIsRestartedWithoutHoldingLaterSteps(t *testing.T) {
	s := newScene(v1.RestartPolicyNever, "sidecar s", "init a", "init b", "app x")
	s.runs("s", 1)
	s.want(t, "start s#1") // not yet passed: a waits
	s.starts("s")
	s.want(t, "start a#0")
	s.starts("a")
	s.pass(time.Minute)
	s.ends("s", 1)
	s.want(t, "remove s0")
	s.pass(10 * time.Second)
	s.want(t, "remove s0", "start s#2")
	s.runs("s", 1)
	s.ends("a", 0)
	d := s.want(t, "remove s0", "remove s1", "start b#0")
	if want := s.now.Add(20 * time.Second); !d.Next.Equal(want) {
		t.Errorf("next decision at %s, want %s", d.Next, want)
	}
}

// C72: a sidecar restarts whatever the Pod's policy, and never fails the Pod.
func TestC72SidecarFailsItsStartupProbeInANeverPod(t *testing.T) {
	s := newScene(v1.RestartPolicyNever, "sidecar s", "app x")
	s.container("s").StartupProbe = &v1.Probe{}
	s.starts("s")
	s.seen.Probes["s"] = ProbeState{ContainerID: "s0", Failed: &ProbeFailure{Kind: "startup"}}
	d := s.want(t, "stop s0 30s")
	if got, want := d.Actions[0].Message, "Container s failed startup probe, will be restarted"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	s.ends("s", 137)
	s.want(t, "start s#1")
	s.wantPhase(t, v1.PodPending)
	s.runs("s", 137)
	s.want(t, "remove s0")
	s.pass(10 * time.Second)
	s.want(t, "remove s0", "start s#2")
	s.starts("s")
	s.seen.Probes["s"] = ProbeState{ContainerID: "s2", Started: true}
	s.want(t, "remove s0", "start x#0")
}

func TestReasonsNameWhatIsWaitedFor(t *testing.T) {
	s := newScene(v1.RestartPolicyAlways, "app x", "app y")
	s.container("x").ReadinessProbe = &v1.Probe{}
	s.starts("x")
	s.seen.Images["y"] = ImageState{Pulling: true, PulledFor: -1}
	d := s.want(t)
	want := []reason.Reason{
		{Code: reason.ContainerUnready, Object: "x"},
		{Code: reason.ContainerWaiting, Object: "y", Detail: "pulling image img-y"},
	}
	if !slices.Equal(d.Reasons, want) {
		t.Errorf("reasons %v, want %v", d.Reasons, want)
	}
	for _, r := range want {
		if !reason.Known(r.Code) {
			t.Errorf("%s is not in the table", r.Code)
		}
	}
}
