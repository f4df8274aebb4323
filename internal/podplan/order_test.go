package podplan

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestInitStepsInOrder(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "u"}, Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "a", Image: "i"}, {Name: "b", Image: "i"}},
		Containers:     []v1.Container{{Name: "x", Image: "i"}, {Name: "y", Image: "i"}},
	}}
	here := ImageState{Present: true, PulledFor: -1}
	seen := Observed{
		Volumes:   Preparation{Ready: true},
		Sandboxes: []Sandbox{{ID: "s", Ready: true, CreatedAt: t0}}, SandboxAttempts: 1,
		Images: map[string]ImageState{"a": here, "b": here, "x": here, "y": here},
	}
	run := func(name string, state RunState, code int32) {
		seen.Attempts = append(seen.Attempts, Attempt{Container: name, ID: name, SandboxID: "s", State: state, ExitCode: code, CreatedAt: t0, StartedAt: t0})
	}
	starts := func() (names []string) {
		for _, a := range Decide(pod, seen, t0).Actions {
			if a.Verb == StartContainer {
				names = append(names, a.Container)
			}
		}
		return names
	}
	want := func(names ...string) {
		t.Helper()
		got := starts()
		if len(got) != len(names) {
			t.Fatalf("starts %v, want %v", got, names)
		}
		for i := range got {
			if got[i] != names[i] {
				t.Fatalf("starts %v, want %v", got, names)
			}
		}
	}
	want("a")
	run("a", RunRunning, 0)
	want()
	seen.Attempts[0].State = RunExited
	want("b")
	run("b", RunExited, 0)
	want("x", "y")
	if got := Status(pod, seen, t0); got.Phase != v1.PodPending {
		t.Errorf("phase %s before the app containers run", got.Phase)
	}
	run("x", RunRunning, 0)
	want("y")
	run("y", RunRunning, 0)
	want()
	if got := Status(pod, seen, t0); got.Phase != v1.PodRunning || !got.ContainerStatuses[0].Ready {
		t.Errorf("phase %s, ready %v", got.Phase, got.ContainerStatuses[0].Ready)
	}
}
