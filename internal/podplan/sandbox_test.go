package podplan

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/reason"
)

func TestDeadSandboxIsLeftBeforeTheNextIsMade(t *testing.T) {
	s := newScene(always, "app x")
	s.starts("x")
	s.seen.Sandboxes[0].Ready = false // its first process died; a container and the network are left
	s.want(t, "stop x0 30s")
	s.ends("x", 143)
	s.want(t, "stop sandbox s0")
	t.Run("told by the missing address", func(t *testing.T) {
		s.seen.Sandboxes[0].IPs = nil
		d := s.want(t, "sandbox 1")
		if a := d.Actions[0]; a.Reason != "SandboxChanged" || a.Message != "Pod sandbox changed, it will be killed and re-created." {
			t.Errorf("event %s %q", a.Reason, a.Message)
		}
	})
	t.Run("told by the agent", func(t *testing.T) {
		s.seen.Sandboxes[0].IPs, s.seen.Sandboxes[0].Stopped = []string{"10.0.0.7"}, true
		s.want(t, "sandbox 1")
	})
}

func TestSandboxGoneBehindOurBack(t *testing.T) {
	s := newScene(always, "init a", "app x")
	s.runs("a", 0).Gone = true
	s.seen.Sandboxes = nil
	s.seen.SandboxAttempts = 4
	s.want(t, "sandbox 4")
}

func TestSandboxFailuresAreBackedOff(t *testing.T) {
	s := newScene(always, "app x")
	s.seen.Sandboxes, s.seen.SandboxAttempts = nil, 0
	for i, wait := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		s.seen.SandboxFailure = &StartFailure{Reason: "FailedCreatePodSandBox", Message: "no network", Count: i + 1, At: s.now}
		d := s.wantIn(t, time.Duration(wait)*time.Second)
		want := reason.Reason{Code: reason.SandboxFailed, Object: "p", Count: i + 1, Detail: "no network"}
		if len(d.Reasons) != 1 || d.Reasons[0] != want {
			t.Errorf("reasons %v, want %v", d.Reasons, want)
		}
	}
	s.pass(time.Minute)
	s.want(t, "sandbox 0")
}

func TestSandboxesThatDieYoungAreMadeAnewMoreRarely(t *testing.T) {
	for _, used := range []bool{true, false} {
		t.Run(fmt.Sprintf("a container was made in them: %v", used), func(t *testing.T) {
			s := newScene(always, "app x")
			s.container("x").ImagePullPolicy = v1.PullNever
			for _, wait := range []int{0, 10, 20, 40} {
				if used {
					s.starts("x").Gone = true
				}
				s.loseSandbox()
				if wait > 0 {
					d := s.decide()
					if want := s.now.Add(time.Duration(wait) * time.Second); !d.Next.Equal(want) {
						t.Fatalf("next sandbox at %s, want %s", d.Next, want)
					}
				}
				s.pass(time.Duration(wait) * time.Second)
				s.newSandbox()
			}
		})
	}
}

func TestSandboxThatLivedLongIsMadeAnewAtOnce(t *testing.T) {
	s := newScene(always, "app x")
	for range 5 {
		s.starts("x").Gone = true
		s.pass(time.Hour)
		s.loseSandbox()
		s.newSandbox()
	}
	s.starts("x")
	s.loseSandbox() // young, but the first of its kind
	s.seen.Sandboxes = s.seen.Sandboxes[:1]
	s.want(t, "sandbox 6")
}

func TestFailedTriesDoNotMakeASandboxLookYoung(t *testing.T) {
	s := newScene(always, "app x")
	s.seen.SandboxAttempts, s.seen.Sandboxes[0].Attempt = 8, 7
	s.starts("x")
	s.loseSandbox()
	s.want(t, "sandbox 8")
}

func TestTidyKeepsTheLastEndedAttemptOfEachContainer(t *testing.T) {
	s := newScene(always, "init a", "app x")
	s.runs("a", 1)
	s.runs("a", 0)
	s.runs("x", 1)
	s.starts("x")
	s.want(t, "remove a0")
	s.pass(time.Hour)
	s.loseSandbox()
	s.newSandbox()
	s.runs("a", 0)
	s.want(t, "remove a0", "remove a1", "remove x0", "start x#2")
	dropAllButLast(s, "a")
	s.want(t, "remove x0", "start x#2") // the last attempt at x keeps its sandbox
	s.starts("x")
	s.pass(time.Hour)
	s.runs("x", 1)
	dropAllButLast(s, "x")
	s.seen.Attempts[len(s.seen.Attempts)-1].StartedAt = t0 // a good run
	s.want(t, "remove sandbox s0", "start x#4")
}

func TestContainerMadeButNotStartedInADeadSandbox(t *testing.T) {
	s := newScene(always, "app x")
	s.starts("x").State = RunCreated
	s.loseSandbox()
	s.want(t, "remove x0")
	s.attempt("x").State, s.attempt("x").Gone = RunUnknown, true
	s.want(t, "sandbox 1")
	s.newSandbox()
	s.want(t, "remove sandbox s0", "start x#1")
}

func TestAgentThatJustStarted(t *testing.T) {
	s := newScene(always, "init a", "app x")
	s.runs("a", 0)
	s.starts("x")
	s.seen.Volumes, s.seen.Images, s.seen.Probes = Preparation{}, nil, nil
	s.want(t, "PrepareVolumes")
	s.ends("x", 1)
	s.want(t, "PrepareVolumes")
	s.seen.Volumes.Ready = true
	s.want(t, "pull x#1")
}
