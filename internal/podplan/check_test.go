package podplan

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// checkStatus holds a status against the one that was written before it.
func (w *world) checkStatus(t *rapid.T, s v1.PodStatus) {
	old := w.pod.Status.Phase
	if (old == v1.PodFailed || old == v1.PodSucceeded) && s.Phase != old {
		t.Fatalf("phase went from %s to %s", old, s.Phase)
	}
	if ended := s.Phase == v1.PodFailed || s.Phase == v1.PodSucceeded; ended && old != s.Phase {
		if live := w.held(func(r *run) bool { return r.shown == RunRunning }); len(live) > 0 {
			t.Fatalf("phase %s while %s runs", s.Phase, live[0].ID)
		}
	}
	all := slices.Concat(s.InitContainerStatuses, s.ContainerStatuses)
	for _, c := range all {
		if n := states(c.State); n != 1 {
			t.Fatalf("%s is in %d states: %+v", c.Name, n, c.State)
		}
	}
	for i, c := range twinContainers(w.pod) {
		if condition(s, v1.PodReady).Status == v1.ConditionTrue && (!c.init || c.sidecar) && !all[i].Ready {
			t.Fatalf("the Pod is Ready and %s is not", c.name)
		}
	}
}

func states(s v1.ContainerState) int {
	count := 0
	for _, is := range []bool{s.Waiting != nil, s.Running != nil, s.Terminated != nil} {
		if is {
			count++
		}
	}
	return count
}

// checkAction holds one action that is about to be done against the world.
func (w *world) checkAction(t *rapid.T, seen Observed, a Action) {
	switch a.Verb {
	case RunSandbox:
		if live := w.held(running); len(live) > 0 || w.present() != nil {
			t.Fatalf("a new sandbox beside %v, which runs", live)
		}
		if a.Attempt < w.sandboxRuns {
			t.Fatalf("sandbox attempt %d twice", a.Attempt)
		}
	case StartContainer:
		if a.ID == "" {
			w.checkStart(t, a)
		}
	case StopContainer:
		w.checkStop(t, seen, a)
	case RemoveContainer:
		// The runtime itself ends one that it did not show as running yet.
		if r := w.find(a.ID); r.State == RunRunning && r.shown != RunCreated {
			t.Fatalf("%s is removed while it runs", a.ID)
		}
	case RemoveSandbox:
		for _, r := range w.held(func(r *run) bool { return r.SandboxID == a.ID }) {
			t.Fatalf("sandbox %s is removed with %s in it", a.ID, r.ID)
		}
	case Release:
		if live := w.held(running); len(live) > 0 {
			t.Fatalf("the Pod is released while %s runs", live[0].ID)
		}
	}
}

// checkStart is safety rules 3 and 4 for one start.
func (w *world) checkStart(t *rapid.T, a Action) {
	s := w.present()
	if w.terminating != nil {
		t.Fatalf("%s starts though the Pod is being deleted", a.Container)
	}
	if s == nil {
		return // it dies in this very turn: the start fails
	}
	containers := twinContainers(w.pod)
	at := slices.IndexFunc(containers, func(c twin) bool { return c.name == a.Container })
	for _, r := range w.runs {
		known := w.recorded[r.ID].State == RunExited || (r.held && r.shown == RunExited)
		if r.Container == a.Container && r.held && r.State == RunRunning {
			t.Fatalf("%s starts while %s runs", a.Container, r.ID)
		}
		if r.Container == a.Container && (r.held || w.recorded[r.ID].ID != "") && a.Attempt <= r.Number {
			t.Fatalf("attempt %d at %s after attempt %d", a.Attempt, a.Container, r.Number)
		}
		if step := containers[at]; step.init && !step.sidecar && r.SandboxID == s.ID {
			if r.Container == a.Container && known && r.ExitCode == 0 {
				t.Fatalf("step %s runs again in its sandbox after %s succeeded", a.Container, r.ID)
			}
			if slices.IndexFunc(containers, func(c twin) bool { return c.name == r.Container }) > at {
				t.Fatalf("step %s starts after %s was made", a.Container, r.ID)
			}
		}
	}
	for _, before := range containers[:at] {
		if before.init && !slices.ContainsFunc(w.runs, func(r *run) bool {
			through := (before.sidecar && r.started) || (!before.sidecar && r.State == RunExited && r.ExitCode == 0)
			return r.Container == before.name && r.SandboxID == s.ID && through
		}) {
			t.Fatalf("%s starts though %s is not through", a.Container, before.name)
		}
	}
}

// checkStop is the order and the budget of termination.
func (w *world) checkStop(t *rapid.T, seen Observed, a Action) {
	if a.Grace < leastGrace {
		t.Fatalf("%s gets %s to stop", a.ID, a.Grace)
	}
	if w.terminating == nil {
		return
	}
	if a.Grace > max(w.terminating.Grace, leastGrace) {
		t.Fatalf("%s gets %s to stop, the Pod has %s", a.ID, a.Grace, w.terminating.Grace)
	}
	containers := twinContainers(w.pod)
	at := slices.IndexFunc(containers, func(c twin) bool { return c.name == a.Container })
	if !containers[at].sidecar {
		return
	}
	for _, other := range seen.Attempts {
		i := slices.IndexFunc(containers, func(c twin) bool { return c.name == other.Container })
		if other.live() && (i > at || !containers[i].sidecar) {
			t.Fatalf("sidecar %s is stopped while %s runs", a.Container, other.ID)
		}
	}
}
