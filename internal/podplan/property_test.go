package podplan

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// TestAnySequenceOfEvents lets random misfortune befall a Pod and its agent, and
// holds every decision against the rules that must never be broken, the obvious
// twin, and the world as it really is. In the end it lets calm return: the Pod
// must then come to rest where it should.
func TestAnySequenceOfEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(drawPod(t))
		t.Repeat(map[string]func(*rapid.T){
			"agent acts":      w.agentActs,
			"agent acts more": w.agentActs,
			"agent restarts":  func(*rapid.T) { w.restartAgent() },
			"time passes": func(t *rapid.T) {
				w.now = w.now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 11 * time.Second, time.Minute, 11 * time.Minute}).Draw(t, "time"))
			},
			"container exits": func(t *rapid.T) {
				w.exit(drawRun(t, w.held(running)), rapid.SampledFrom([]int32{0, 0, 1, 137}).Draw(t, "code"))
			},
			"runtime catches up": func(t *rapid.T) {
				w.catchUp(drawRun(t, w.held(func(r *run) bool { return r.shown != r.State })))
			},
			"runtime loses track": func(t *rapid.T) {
				seldom(t, 3)
				drawRun(t, w.held(running)).shown = RunUnknown
			},
			"sandbox dies": func(t *rapid.T) {
				seldom(t, 3)
				w.endSandbox(rapid.Bool().Draw(t, "containers too"), rapid.Bool().Draw(t, "network too"))
			},
			"sandbox vanishes": func(t *rapid.T) { seldom(t, 6); w.vanish() },
			"ended container is removed": func(t *rapid.T) {
				drawRun(t, w.held(func(r *run) bool { return exited(r) && w.recorded[r.ID].State == RunExited })).held = false
			},
			"image is removed": func(t *rapid.T) {
				c := rapid.SampledFrom(names(w.pod)).Draw(t, "image of")
				w.mind.images[c] = ImageState{PulledFor: -1}
			},
			"probe speaks":   w.probeSpeaks,
			"status arrives": func(*rapid.T) { w.pod.Status = Status(w.pod, w.observe(), w.now) },
			"pod is deleted": func(t *rapid.T) { seldom(t, 12); w.remove(t) },
		})
		w.calm(t)
		if w.terminating == nil && rapid.Bool().Draw(t, "deleted in the end") {
			w.remove(t)
			w.calm(t)
		}
	})
}

func seldom(t *rapid.T, times int) {
	if rapid.IntRange(1, times).Draw(t, "luck") != 1 {
		t.Skip("not this time")
	}
}

func drawRun(t *rapid.T, runs []*run) *run {
	if len(runs) == 0 {
		t.Skip("no such container")
	}
	return runs[rapid.IntRange(0, len(runs)-1).Draw(t, "container")]
}

func drawPod(t *rapid.T) *v1.Pod {
	policy := rapid.SampledFrom([]v1.RestartPolicy{always, onFailure, never}).Draw(t, "policy")
	var containers []string
	for i, kind := range rapid.SliceOfN(rapid.SampledFrom([]string{"init", "sidecar"}), 0, 4).Draw(t, "init containers") {
		containers = append(containers, fmt.Sprintf("%s %s%d", kind, kind[:1], i))
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "apps") {
		containers = append(containers, fmt.Sprintf("app x%d", i))
	}
	s := newScene(policy, containers...)
	for _, name := range names(s.pod) {
		c := s.container(name)
		if rapid.Bool().Draw(t, "pulled for each attempt") {
			c.ImagePullPolicy = v1.PullAlways
		}
		if c.RestartPolicy != nil && rapid.Bool().Draw(t, "startup probe") {
			c.StartupProbe = &v1.Probe{}
		}
	}
	return s.pod
}

func names(pod *v1.Pod) []string {
	var all []string
	for _, c := range twinContainers(pod) {
		all = append(all, c.name)
	}
	return all
}

func (w *world) probeSpeaks(t *rapid.T) {
	r := drawRun(t, w.held(func(r *run) bool { return r.shown == RunRunning }))
	state := ProbeState{ContainerID: r.ID, Started: rapid.Bool().Draw(t, "started")}
	if !state.Started && rapid.Bool().Draw(t, "failed") {
		state.Failed = &ProbeFailure{Kind: "startup"}
	}
	w.mind.probes[r.Container] = state
	r.started = r.started || state.Started
}

func (w *world) remove(t *rapid.T) {
	if w.terminating != nil {
		t.Skip("deleted already")
	}
	w.terminating = &Termination{Since: w.now, Grace: time.Duration(rapid.IntRange(0, 30).Draw(t, "grace")) * time.Second}
	deleted := metav1.NewTime(w.now)
	w.pod.DeletionTimestamp = &deleted
}

// agentActs is one turn of the agent: it looks, decides, and some of what it
// decided gets done, in any order, well or badly.
func (w *world) agentActs(t *rapid.T) {
	seen := w.observe()
	d := w.decideAndCheck(t, seen)
	actions := rapid.Permutation(d.Actions).Draw(t, "order")
	for _, a := range actions[:rapid.IntRange(0, len(actions)).Draw(t, "how many")] {
		w.checkAction(t, seen, a)
		w.apply(a, rapid.IntRange(0, 4).Draw(t, "works") > 0)
	}
}

// decideAndCheck decides, and checks what holds of every decision as a whole.
func (w *world) decideAndCheck(t *rapid.T, seen Observed) Decision {
	before, err := json.Marshal([]any{w.pod, seen})
	if err != nil {
		t.Fatal(err)
	}
	d := Decide(w.pod, seen, w.now)
	status := Status(w.pod, seen, w.now)
	if again := Decide(w.pod, seen, w.now); !cmp.Equal(d, again) {
		t.Fatalf("two decisions about the same facts: %s", cmp.Diff(d, again))
	}
	if after, err := json.Marshal([]any{w.pod, seen}); err != nil || string(before) != string(after) {
		t.Fatalf("the facts were changed: %v", err)
	}
	if !d.Next.IsZero() && !d.Next.After(w.now) {
		t.Fatalf("next decision at %s, it is %s", d.Next, w.now)
	}
	starts := map[string]int{}
	for _, a := range d.Actions {
		if a.Verb == StartContainer {
			starts[a.Container] = a.Attempt
		}
	}
	if want := mayStart(w.pod, seen, w.now); !maps.Equal(starts, want) {
		t.Fatalf("starts %v, the twin says %v", starts, want)
	}
	w.checkStatus(t, status)
	return d
}

// calm lets everything go well from now on.
func (w *world) calm(t *rapid.T) {
	for range 300 {
		for _, r := range w.held(func(r *run) bool { return true }) {
			w.goWell(r)
		}
		d := w.decideAndCheck(t, w.observe())
		if d.Terminal {
			return
		}
		for _, a := range d.Actions {
			w.checkAction(t, w.observe(), a)
			w.apply(a, true)
		}
		if len(d.Actions) == 0 && !d.Next.IsZero() {
			w.now = d.Next
			continue
		}
		if len(d.Actions) == 0 && w.settled(t) {
			return
		}
	}
	t.Fatalf("the Pod does not come to rest; last decision %+v", Decide(w.pod, w.observe(), w.now))
}

// goWell is what a container does when nothing goes wrong: steps end with 0, and
// so do the apps of Pods that are to end.
func (w *world) goWell(r *run) {
	w.catchUp(r)
	delete(w.mind.probes, r.Container)
	for _, c := range twinContainers(w.pod) {
		if c.name == r.Container && !c.sidecar && (c.init || c.policy != always) {
			w.exit(r, 0)
			w.catchUp(r)
		}
	}
	if r.State == RunRunning {
		w.mind.probes[r.Container] = ProbeState{ContainerID: r.ID, Started: true, Ready: true}
		r.started = true
	}
}

// settled says that the Pod runs as it should for as long as nothing happens.
func (w *world) settled(t *rapid.T) bool {
	s := Status(w.pod, w.observe(), w.now)
	if s.Phase != v1.PodRunning || condition(s, v1.PodReady).Status != v1.ConditionTrue {
		return false
	}
	if w.terminating != nil || w.pod.Spec.RestartPolicy != always {
		t.Fatalf("the Pod runs on though it is to end: %+v", s.ContainerStatuses)
	}
	return true
}
