package podplan

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// world is a node with one Pod, as it really is: what the runtime holds, what the
// journal remembers, what the agent has in mind. Decide sees only what observe
// shows of it.
type world struct {
	pod       *v1.Pod
	now       time.Time
	sandboxes []Sandbox // newest first
	runs      []*run    // every run that ever was, oldest first
	nextID    int

	// The journal: it outlives the agent.
	recorded    map[string]Attempt
	sandboxRuns int
	terminating *Termination

	// The agent's mind: gone with it.
	mind mind
}

type mind struct {
	volumes  bool
	images   map[string]ImageState
	probes   map[string]ProbeState
	failures map[string]StartFailure
	sandbox  *StartFailure
}

// run is one run of a container. The runtime may be slow to show how far it is.
type run struct {
	Attempt
	held    bool // the runtime has not forgotten it
	shown   RunState
	started bool // at some time its successors could go on
}

func newWorld(pod *v1.Pod) *world {
	w := &world{pod: pod, now: t0, recorded: map[string]Attempt{}}
	w.restartAgent()
	return w
}

// restartAgent makes the agent forget all but its journal.
func (w *world) restartAgent() {
	w.mind = mind{images: map[string]ImageState{}, probes: map[string]ProbeState{}, failures: map[string]StartFailure{}}
}

// observe is what the agent sees now; what it sees is in the journal from then on.
func (w *world) observe() Observed {
	for _, r := range w.runs {
		if known, ok := w.recorded[r.ID]; r.held && (!ok || known.State != RunExited) {
			w.recorded[r.ID] = r.visible()
		}
	}
	var attempts []Attempt
	for _, r := range w.runs {
		a, known := w.recorded[r.ID]
		switch {
		case r.held:
			a = r.visible()
		case !known:
			continue
		default:
			a.Gone = true
			if a.State != RunExited {
				a.State = RunUnknown
			}
		}
		attempts = append(attempts, a)
	}
	return Observed{
		Sandboxes: slices.Clone(w.sandboxes), SandboxAttempts: w.sandboxRuns, Attempts: attempts,
		Volumes: Preparation{Ready: w.mind.volumes}, Images: w.mind.images, Probes: w.mind.probes,
		StartFailures: w.mind.failures, SandboxFailure: w.mind.sandbox,
		Terminating: w.terminating, HostIPs: []string{"192.0.2.1"},
	}
}

// visible is the run as the runtime shows it.
func (r *run) visible() Attempt {
	a := r.Attempt
	a.State = r.shown
	if r.shown != RunExited {
		a.ExitCode, a.FinishedAt = 0, time.Time{}
	}
	if r.shown == RunCreated {
		a.StartedAt = time.Time{}
	}
	return a
}

// catchUp has the runtime show the run as it is.
func (w *world) catchUp(r *run) {
	r.shown = r.State
	probed := slices.ContainsFunc(w.pod.Spec.InitContainers, func(c v1.Container) bool {
		return c.Name == r.Container && c.StartupProbe != nil
	})
	r.started = r.started || (r.State == RunRunning && !probed)
}

// present is the sandbox that lives; nil when none does.
func (w *world) present() *Sandbox {
	if len(w.sandboxes) > 0 && w.sandboxes[0].Ready {
		return &w.sandboxes[0]
	}
	return nil
}

func (w *world) find(id string) *run {
	for _, r := range w.runs {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// held are the runs the runtime holds of which keep is true.
func (w *world) held(keep func(*run) bool) []*run {
	var all []*run
	for _, r := range w.runs {
		if r.held && keep(r) {
			all = append(all, r)
		}
	}
	return all
}

func running(r *run) bool { return r.State == RunRunning }
func exited(r *run) bool  { return r.State == RunExited }

func (w *world) exit(r *run, code int32) {
	if r.State == RunExited {
		return
	}
	r.State, r.ExitCode, r.FinishedAt = RunExited, code, w.now
}

// endSandbox is the death of the newest sandbox; what ran in it may outlive it.
func (w *world) endSandbox(containersToo, networkToo bool) {
	s := w.present()
	if s == nil {
		return
	}
	s.Ready = false
	if networkToo {
		s.IPs = nil
	}
	for _, r := range w.held(running) {
		if containersToo && r.SandboxID == s.ID {
			w.exit(r, 137)
			w.catchUp(r)
		}
	}
}

// vanish takes the newest sandbox away with everything in it.
func (w *world) vanish() {
	if len(w.sandboxes) == 0 {
		return
	}
	for _, r := range w.runs {
		if r.SandboxID == w.sandboxes[0].ID {
			w.exit(r, 137)
			r.held = false
		}
	}
	w.sandboxes = w.sandboxes[1:]
}

// apply does one action; works says whether the runtime and the registry are well.
func (w *world) apply(a Action, works bool) {
	switch a.Verb {
	case PrepareVolumes:
		w.mind.volumes = works
	case RunSandbox:
		w.runSandbox(a, works)
	case PullImage:
		w.pull(a, works)
	case StartContainer:
		w.start(a, works)
	case StopContainer:
		r := w.find(a.ID)
		w.exit(r, 143)
		w.catchUp(r)
	case RemoveContainer:
		r := w.find(a.ID)
		w.exit(r, 137)
		r.held = false
	case StopSandbox:
		w.stopSandbox(a.ID)
	case RemoveSandbox:
		w.sandboxes = slices.DeleteFunc(w.sandboxes, func(s Sandbox) bool { return s.ID == a.ID })
	}
}

func (w *world) runSandbox(a Action, works bool) {
	w.sandboxRuns = a.Attempt + 1
	if !works {
		count := 1
		if w.mind.sandbox != nil {
			count += w.mind.sandbox.Count
		}
		w.mind.sandbox = &StartFailure{Reason: "FailedCreatePodSandBox", Count: count, At: w.now}
		return
	}
	w.mind.sandbox = nil
	s := Sandbox{ID: fmt.Sprintf("s%d", a.Attempt), Attempt: a.Attempt, Ready: true, CreatedAt: w.now, IPs: []string{"10.0.0.7"}}
	w.sandboxes = append([]Sandbox{s}, w.sandboxes...)
}

func (w *world) pull(a Action, works bool) {
	state := w.mind.images[a.Container]
	if works {
		w.mind.images[a.Container] = ImageState{Present: true, PulledFor: a.Attempt}
		return
	}
	state.Failures++
	state.LastFailure, state.Error, state.PulledFor = w.now, "not found", -1
	w.mind.images[a.Container] = state
}

func (w *world) start(a Action, works bool) {
	if r := w.find(a.ID); r != nil {
		if r.State == RunCreated && works && r.held {
			r.State, r.StartedAt = RunRunning, w.now
		}
		return
	}
	if s := w.present(); s != nil && works {
		w.nextID++
		r := &run{held: true, shown: RunCreated, Attempt: Attempt{
			Container: a.Container, Number: a.Attempt, ID: fmt.Sprintf("%s-%d", a.Container, w.nextID),
			SandboxID: s.ID, State: RunRunning, CreatedAt: w.now, StartedAt: w.now}}
		w.runs = append(w.runs, r)
		delete(w.mind.failures, a.Container)
		return
	}
	failure := w.mind.failures[a.Container]
	w.mind.failures[a.Container] = StartFailure{Reason: "CreateContainerError", Count: failure.Count + 1, At: w.now}
}

func (w *world) stopSandbox(id string) {
	for i := range w.sandboxes {
		if w.sandboxes[i].ID == id {
			w.sandboxes[i].Ready, w.sandboxes[i].IPs = false, nil
		}
	}
	for _, r := range w.held(running) {
		if r.SandboxID == id {
			w.exit(r, 137)
			w.catchUp(r)
		}
	}
}
