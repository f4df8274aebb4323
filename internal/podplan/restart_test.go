package podplan

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/reason"
)

const (
	always    = v1.RestartPolicyAlways
	onFailure = v1.RestartPolicyOnFailure
	never     = v1.RestartPolicyNever
)

func TestRestartPolicyOfEnds(t *testing.T) {
	for _, row := range []struct {
		kind   string
		policy v1.RestartPolicy
		code   int32
		again  bool
	}{
		{"app", always, 0, true},
		{"app", always, 1, true},
		{"app", onFailure, 0, false},
		{"app", onFailure, 1, true},
		{"app", never, 0, false},
		{"app", never, 1, false},
		{"init", always, 1, true},
		{"init", onFailure, 1, true},
		{"init", never, 1, false},
		{"sidecar", always, 0, true},
		{"sidecar", onFailure, 0, true},
		{"sidecar", never, 0, true},
		{"sidecar", never, 1, true},
	} {
		t.Run(fmt.Sprintf("%s %s exit %d", row.kind, row.policy, row.code), func(t *testing.T) {
			s := newScene(row.policy, row.kind+" c", "app x")
			s.runs("c", row.code)
			if row.kind == "app" {
				s.starts("x")
			}
			if row.again {
				s.want(t, "start c#1")
			} else if row.kind == "init" {
				s.want(t, "stop sandbox s0")
			} else {
				s.want(t)
			}
		})
	}
}

func TestContainersOwnRestartPolicyAndRules(t *testing.T) {
	own := func(p v1.ContainerRestartPolicy) *v1.ContainerRestartPolicy { return &p }
	rule := func(op v1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) []v1.ContainerRestartRule {
		return []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestart,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes}}}
	}
	for _, row := range []struct {
		name  string
		pod   v1.RestartPolicy
		own   v1.ContainerRestartPolicy
		rules []v1.ContainerRestartRule
		code  int32
		again bool
	}{
		{"Never in an Always Pod", always, v1.ContainerRestartPolicyNever, nil, 1, false},
		{"OnFailure in a Never Pod", never, v1.ContainerRestartPolicyOnFailure, nil, 1, true},
		{"Never, but for the code", always, v1.ContainerRestartPolicyNever, rule("In", 42), 42, true},
		{"Never, another code", always, v1.ContainerRestartPolicyNever, rule("In", 42), 1, false},
		{"Never, but for other codes", always, v1.ContainerRestartPolicyNever, rule("NotIn", 42), 1, true},
		{"Never, the code left out", always, v1.ContainerRestartPolicyNever, rule("NotIn", 42), 42, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(row.pod, "app c", "app x")
			c := s.container("c")
			c.RestartPolicy, c.RestartPolicyRules = own(row.own), row.rules
			s.starts("x")
			s.runs("c", row.code)
			if row.again {
				s.want(t, "start c#1")
			} else {
				s.want(t)
			}
		})
	}
}

// C65: the first restart is at once, the following ones after 10, 20, 40 … 300 s,
// for ever; ten minutes of good running begin anew.
func TestC65BackOff(t *testing.T) {
	for _, kind := range []string{"init", "app"} {
		t.Run(kind, func(t *testing.T) {
			s := newScene(onFailure, kind+" c", "app x")
			if kind == "app" {
				s.starts("x")
			}
			for i, wait := range []int{0, 10, 20, 40, 80, 160, 300, 300, 300} {
				s.runs("c", 1)
				dropAllButLast(s, "c")
				if wait > 0 {
					s.wantIn(t, time.Duration(wait)*time.Second)
					s.wantWaiting(t, "c", "CrashLoopBackOff", fmt.Sprintf(
						"back-off %s restarting failed container=c pod=p_n(u)", time.Duration(wait)*time.Second))
				}
				s.pass(time.Duration(wait) * time.Second)
				s.want(t, fmt.Sprintf("start c#%d", i+1))
			}
			s.starts("c")
			s.pass(10 * time.Minute)
			s.ends("c", 1)
			dropAllButLast(s, "c")
			s.want(t, "start c#10")
			s.runs("c", 1)
			dropAllButLast(s, "c")
			s.wantIn(t, 10*time.Second)
		})
	}
}

func TestSuccessOfAnInitStepForgetsItsFailures(t *testing.T) {
	s := newScene(always, "init a", "app x")
	s.runs("a", 1)
	s.runs("a", 1)
	s.runs("a", 0)
	dropAllButLast(s, "a")
	s.loseSandbox()
	s.newSandbox()
	s.want(t, "start a#3")
	s.runs("a", 1)
	dropAllButLast(s, "a")
	s.want(t, "remove sandbox s0", "start a#4")
}

// dropAllButLast has the runtime forget all older attempts; the journal keeps them.
func dropAllButLast(s *scene, name string) {
	last := s.attempt(name)
	for i := range s.seen.Attempts {
		if a := &s.seen.Attempts[i]; a.Container == name && a != last {
			a.Gone = true
		}
	}
}

func TestClockSetBackDoesNotHoldARestart(t *testing.T) {
	s := newScene(always, "app x")
	s.runs("x", 1)
	s.runs("x", 1)
	s.pass(-24 * time.Hour)
	s.want(t, "remove x0", "start x#2")
}

// C63: an init step that fails under Never fails the Pod; nothing after it starts.
func TestC63FailedInitStepUnderNeverFailsThePod(t *testing.T) {
	s := newScene(never, "init a", "init b", "init c", "app x")
	s.runs("a", 0)
	s.runs("b", 1)
	d := s.want(t, "stop sandbox s0")
	want := reason.Reason{Code: reason.InitFailed, Object: "b", Count: 1, Detail: "exit code 1"}
	if len(d.Reasons) != 1 || d.Reasons[0] != want {
		t.Errorf("reasons %v, want %v", d.Reasons, want)
	}
	s.wantPhase(t, v1.PodPending)
	s.loseSandbox()
	if d := s.want(t, "Release"); !d.Terminal {
		t.Error("the Pod is not terminal")
	}
	status := s.wantPhase(t, v1.PodFailed)
	if got := status.InitContainerStatuses[1].State.Terminated; got == nil || got.ExitCode != 1 || got.Reason != "Error" {
		t.Errorf("failed step: %+v", status.InitContainerStatuses[1].State)
	}
	for _, c := range []v1.ContainerStatus{status.InitContainerStatuses[2], status.ContainerStatuses[0]} {
		if c.State.Waiting == nil || c.State.Waiting.Reason != "PodInitializing" {
			t.Errorf("%s never ran, but its state is %+v", c.Name, c.State)
		}
	}
}

func TestPodThatIsDoneStopsItsSidecarsAndEnds(t *testing.T) {
	for _, row := range []struct {
		name   string
		policy v1.RestartPolicy
		codes  [2]int32
		phase  v1.PodPhase
	}{
		{"all succeeded under Never", never, [2]int32{0, 0}, v1.PodSucceeded},
		{"all succeeded under OnFailure", onFailure, [2]int32{0, 0}, v1.PodSucceeded},
		{"one failed under Never", never, [2]int32{0, 3}, v1.PodFailed},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(row.policy, "sidecar s", "sidecar r", "app x", "app y")
			s.starts("s")
			s.starts("r")
			s.runs("x", row.codes[0])
			s.starts("y")
			s.want(t)
			s.ends("y", row.codes[1])
			s.want(t, "stop r0 30s")
			s.wantPhase(t, v1.PodRunning)
			s.ends("r", 0)
			s.want(t, "stop s0 30s")
			s.ends("s", 143)
			s.want(t, "stop sandbox s0")
			s.loseSandbox()
			s.want(t, "Release")
			s.wantPhase(t, row.phase)
			s.pod.Status = s.status()
			s.delete(0)
			s.want(t, "Release")
			s.wantPhase(t, row.phase)
		})
	}
}

func TestSandboxLostByPolicy(t *testing.T) {
	t.Run("Never: nothing that began runs again, and what had not begun is lost", func(t *testing.T) {
		s := newScene(never, "app x", "app y")
		s.starts("x")
		s.loseSandbox()
		s.want(t, "Release")
		status := s.wantPhase(t, v1.PodFailed)
		if y := status.ContainerStatuses[1].State.Terminated; y == nil || y.Reason != "ContainerStatusUnknown" || y.ExitCode != 137 {
			t.Errorf("container that never began: %+v", status.ContainerStatuses[1].State)
		}
	})
	t.Run("Never: before any app container began, the steps run again", func(t *testing.T) {
		s := newScene(never, "init a", "app x")
		s.runs("a", 0)
		s.loseSandbox()
		s.want(t, "sandbox 1")
	})
	t.Run("OnFailure: what succeeded stays done", func(t *testing.T) {
		s := newScene(onFailure, "app x", "app y")
		s.runs("x", 0)
		s.starts("y")
		s.loseSandbox()
		s.want(t, "sandbox 1")
		s.newSandbox()
		s.want(t, "start y#1")
	})
}

func TestAttemptWhoseEndNobodySaw(t *testing.T) {
	for _, row := range []struct {
		policy v1.RestartPolicy
		want   []string
		phase  v1.PodPhase
	}{
		{always, []string{"start x#1"}, v1.PodRunning},
		{never, []string{"stop sandbox s0"}, v1.PodRunning},
	} {
		t.Run(string(row.policy), func(t *testing.T) {
			s := newScene(row.policy, "app x")
			a := s.starts("x")
			a.State, a.Gone = RunUnknown, true
			s.want(t, row.want...)
			status := s.wantPhase(t, row.phase)
			if got := status.ContainerStatuses[0].State.Terminated; got == nil || got.ExitCode != 137 || got.Reason != "ContainerStatusUnknown" {
				t.Errorf("state %+v", status.ContainerStatuses[0].State)
			}
		})
	}
}

func TestAttemptInUnknownStateIsStoppedFirst(t *testing.T) {
	for kind, message := range map[string]string{
		"app":     `Container is in "unknown" state, try killing it before restart`,
		"init":    `Init container is in "unknown" state, try killing it before restart`,
		"sidecar": `Init container is in "unknown" state, try killing it before restart`,
	} {
		t.Run(kind, func(t *testing.T) {
			s := newScene(always, kind+" c", "app x")
			if kind == "app" {
				s.starts("x")
			}
			s.starts("c").State = RunUnknown
			if d := s.want(t, "stop c0 30s"); d.Actions[0].Message != message {
				t.Errorf("message %q, want %q", d.Actions[0].Message, message)
			}
			s.ends("c", 137)
			s.want(t, "start c#1")
		})
	}
}

func TestRestartRuleOfAnotherAction(t *testing.T) {
	s := newScene(never, "app c", "app x")
	s.container("c").RestartPolicyRules = []v1.ContainerRestartRule{{Action: "SomethingElse",
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: "In", Values: []int32{1}}}}
	s.starts("x")
	s.runs("c", 1)
	s.want(t)
}

// TestStartBrokenOffNeverWas: the agent was killed while the runtime was starting
// the container. That is no failure of the container's, whatever its policy: what
// is left is removed, and the same attempt is made again at once.
func TestStartBrokenOffNeverWas(t *testing.T) {
	for _, kind := range []string{"init", "app", "sidecar"} {
		for _, policy := range []v1.RestartPolicy{always, onFailure, never} {
			t.Run(fmt.Sprintf("%s %s", kind, policy), func(t *testing.T) {
				s := newScene(policy, "init before", kind+" c", "app x")
				s.runs("before", 0)
				if kind == "app" {
					s.starts("x")
				}
				s.runs("c", 128).BrokenOff = true
				s.want(t, "remove c0")
				if status := Status(s.pod, s.seen, s.now); status.Phase != v1.PodPending || restarts(status, "c") != 0 {
					t.Errorf("phase %s, %d restarts, want a Pod that waits for its first start", status.Phase, restarts(status, "c"))
				}
				s.attempt("c").Gone = true
				s.want(t, "start c#0")
			})
		}
	}
}

// TestStartBrokenOffStillProvesTheOrder: what was made after an init step proves
// that the step was passed, also where its start came to nothing.
func TestStartBrokenOffStillProvesTheOrder(t *testing.T) {
	s := newScene(always, "init step", "app c")
	s.starts("c").BrokenOff = true
	s.ends("c", 128).Gone = true
	s.want(t, "start c#0")
}

func restarts(status v1.PodStatus, name string) int32 {
	for _, c := range append(status.InitContainerStatuses, status.ContainerStatuses...) {
		if c.Name == name {
			return c.RestartCount
		}
	}
	return -1
}
