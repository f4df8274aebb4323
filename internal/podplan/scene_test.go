package podplan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// t0 is when every scene begins.
var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// scene is a small world to decide about: a Pod that is placed, with its volumes
// and images there and its first sandbox ready, unless changed.
type scene struct {
	pod  *v1.Pod
	seen Observed
	now  time.Time
}

// newScene makes a Pod of containers given as "init a", "sidecar b", "app c"
// or "ephemeral d".
func newScene(policy v1.RestartPolicy, containers ...string) *scene {
	s := &scene{now: t0, pod: &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "u", Generation: 3},
		Spec:       v1.PodSpec{RestartPolicy: policy, NodeName: "node"},
		Status:     v1.PodStatus{Phase: v1.PodPending, QOSClass: v1.PodQOSBestEffort},
	}}
	grace := int64(30)
	s.pod.Spec.TerminationGracePeriodSeconds = &grace
	s.seen = Observed{
		Volumes:         Preparation{Ready: true},
		SandboxAttempts: 1,
		Sandboxes:       []Sandbox{{ID: "s0", Ready: true, CreatedAt: t0, IPs: []string{"10.0.0.7"}}},
		Images:          map[string]ImageState{},
		Probes:          map[string]ProbeState{},
		StartFailures:   map[string]StartFailure{},
		HostIPs:         []string{"192.0.2.1"},
	}
	for _, c := range containers {
		kind, name, _ := strings.Cut(c, " ")
		s.contain(kind, name)
		s.seen.Images[name] = ImageState{Present: true, PulledFor: -1}
	}
	return s
}

func (s *scene) contain(kind, name string) {
	c := v1.Container{Name: name, Image: "img-" + name, ImagePullPolicy: v1.PullIfNotPresent}
	switch kind {
	case "app":
		s.pod.Spec.Containers = append(s.pod.Spec.Containers, c)
		return
	case "sidecar":
		always := v1.ContainerRestartPolicyAlways
		c.RestartPolicy = &always
	case "init":
	case "ephemeral":
		s.pod.Spec.EphemeralContainers = append(s.pod.Spec.EphemeralContainers,
			v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon(c)})
		return
	default:
		panic("no such kind of container: " + kind)
	}
	s.pod.Spec.InitContainers = append(s.pod.Spec.InitContainers, c)
}

// container finds a container of the Pod, to change it.
func (s *scene) container(name string) *v1.Container {
	for _, list := range [][]v1.Container{s.pod.Spec.InitContainers, s.pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	panic("no such container: " + name)
}

// starts adds an attempt that begins now in the newest sandbox.
func (s *scene) starts(name string) *Attempt {
	number := 0
	for _, a := range s.seen.Attempts {
		if a.Container == name {
			number = a.Number + 1
		}
	}
	s.seen.Attempts = append(s.seen.Attempts, Attempt{
		Container: name, Number: number, ID: fmt.Sprintf("%s%d", name, number), SandboxID: s.seen.Sandboxes[0].ID,
		State: RunRunning, CreatedAt: s.now, StartedAt: s.now, Image: "img-" + name, ImageID: "sha256:" + name,
	})
	return newest(s.seen.Attempts)
}

// ends ends the container's newest attempt now.
func (s *scene) ends(name string, code int32) *Attempt {
	a := s.attempt(name)
	a.State, a.ExitCode, a.FinishedAt = RunExited, code, s.now
	return a
}

// runs is an attempt that begins now and ends at once.
func (s *scene) runs(name string, code int32) *Attempt {
	s.starts(name)
	return s.ends(name, code)
}

func (s *scene) attempt(name string) *Attempt {
	for i := range slices.Backward(s.seen.Attempts) {
		if s.seen.Attempts[i].Container == name {
			return &s.seen.Attempts[i]
		}
	}
	panic("container never ran: " + name)
}

func (s *scene) pass(d time.Duration) { s.now = s.now.Add(d) }

// loseSandbox ends the sandbox and all that runs in it, as a reboot does.
func (s *scene) loseSandbox() {
	s.seen.Sandboxes[0].Ready, s.seen.Sandboxes[0].IPs = false, nil
	for i := range s.seen.Attempts {
		if a := &s.seen.Attempts[i]; a.State == RunRunning {
			a.State, a.ExitCode, a.FinishedAt = RunExited, 137, s.now
		}
	}
}

// newSandbox makes the next sandbox the present one.
func (s *scene) newSandbox() {
	n := s.seen.SandboxAttempts
	s.seen.Sandboxes = append([]Sandbox{{ID: fmt.Sprintf("s%d", n), Attempt: n, Ready: true, CreatedAt: s.now, IPs: []string{"10.0.0.8"}}}, s.seen.Sandboxes...)
	s.seen.SandboxAttempts++
}

func (s *scene) delete(grace time.Duration) {
	s.seen.Terminating = &Termination{Since: s.now, Grace: grace}
	deleted := metav1.NewTime(s.now)
	s.pod.DeletionTimestamp = &deleted
}

func (s *scene) decide() Decision { return Decide(s.pod, s.seen, s.now) }

func (s *scene) status() v1.PodStatus { return Status(s.pod, s.seen, s.now) }

// text is an action as tables write it.
func (a Action) text() string {
	switch a.Verb {
	case StartContainer:
		if a.ID != "" {
			return fmt.Sprintf("start %s#%d as %s", a.Container, a.Attempt, a.ID)
		}
		return fmt.Sprintf("start %s#%d", a.Container, a.Attempt)
	case PullImage:
		return fmt.Sprintf("pull %s#%d", a.Container, a.Attempt)
	case StopContainer:
		return fmt.Sprintf("stop %s %s", a.ID, a.Grace)
	case RemoveContainer:
		return "remove " + a.ID
	case RunSandbox:
		return fmt.Sprintf("sandbox %d", a.Attempt)
	case StopSandbox:
		return "stop sandbox " + a.ID
	case RemoveSandbox:
		return "remove sandbox " + a.ID
	default:
		return string(a.Verb)
	}
}

// want compares the actions decided upon, in any order, with those wanted.
func (s *scene) want(t *testing.T, want ...string) Decision {
	t.Helper()
	d := s.decide()
	var got []string
	for _, a := range d.Actions {
		got = append(got, a.text())
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("actions (-want +got):\n%s", diff)
	}
	return d
}

// wantIn wants nothing done, and the next decision after that time.
func (s *scene) wantIn(t *testing.T, after time.Duration) Decision {
	t.Helper()
	d := s.want(t)
	if want := s.now.Add(after); !d.Next.Equal(want) {
		t.Fatalf("next decision in %s, want in %s", d.Next.Sub(s.now), after)
	}
	return d
}

// waiting is the reason and message of a container's waiting state.
func (s *scene) waiting(name string) (reason, message string) {
	status := s.status()
	for _, c := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses) {
		if c.Name == name && c.State.Waiting != nil {
			return c.State.Waiting.Reason, c.State.Waiting.Message
		}
	}
	return "", ""
}

func (s *scene) wantWaiting(t *testing.T, name, reason, message string) {
	t.Helper()
	gotReason, gotMessage := s.waiting(name)
	if gotReason != reason || gotMessage != message {
		t.Fatalf("%s waits with %q %q, want %q %q", name, gotReason, gotMessage, reason, message)
	}
}

func (s *scene) wantPhase(t *testing.T, want v1.PodPhase) v1.PodStatus {
	t.Helper()
	status := s.status()
	if status.Phase != want {
		t.Fatalf("phase %s, want %s", status.Phase, want)
	}
	return status
}
