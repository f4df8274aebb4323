package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/podplan"
	"muster.dev/muster/internal/runtime"
)

// open opens the Pod's journal and keeps its object on disk, so that a later
// agent can end the Pod properly though the API has forgotten it.
func (w *worker) open(pod *v1.Pod) error {
	if w.journal == nil {
		j, err := openJournal(w.dirs.journal(w.uid))
		if err != nil {
			return err
		}
		w.journal, w.asked = j, maps.Clone(j.facts.starting)
	}
	if w.saved != nil && w.saved.Generation == pod.Generation {
		return nil
	}
	if err := savePod(w.dirs.object(w.uid), pod); err != nil {
		return err
	}
	w.saved = pod
	return nil
}

// observe puts together all that is known of the Pod now. What must survive a
// crash is in the journal when it returns.
func (w *worker) observe(ctx context.Context, pod *v1.Pod, removed bool) (podplan.Observed, error) {
	found, err := w.runtime.Pod(ctx, w.uid)
	if err != nil {
		return podplan.Observed{}, fmt.Errorf("reading the runtime: %w", err)
	}
	w.notice(found)
	now := w.clock.Now()
	if err := w.remember(ctx, pod, removed, found, now); err != nil {
		return podplan.Observed{}, err
	}
	w.lookAtImages(ctx, pod, found)
	facts := &w.journal.facts
	seen := podplan.Observed{
		RuntimeName:     w.runtimeName,
		SandboxAttempts: facts.sandboxAttempts,
		Attempts:        attempts(found, facts),
		Probes:          w.syncProbes(pod, found),
		Rejected:        facts.rejected,
		Removed:         removed,
		Terminating:     facts.terminating,
		HostIPs:         w.hostIPs,
	}
	w.stops.keep(found.Containers)
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.stopped, func(id string, _ bool) bool {
		return !slices.ContainsFunc(found.Sandboxes, func(s runtime.Sandbox) bool { return s.ID == id })
	})
	seen.Sandboxes = sandboxes(found, w.stopped)
	seen.Volumes = w.prepared
	seen.Images = maps.Clone(w.images)
	seen.StartFailures = maps.Clone(w.startFailures)
	seen.SandboxFailure = w.sandboxFailure
	return seen, nil
}

// remember writes into the journal what this observation adds to it.
func (w *worker) remember(ctx context.Context, pod *v1.Pod, removed bool, found runtime.Pod, now time.Time) error {
	facts := &w.journal.facts
	var news []fact
	if len(found.Sandboxes) > 0 {
		if had := int(found.Sandboxes[0].Attempt) + 1; had > facts.sandboxAttempts {
			news = append(news, fact{Sandbox: had})
		}
	}
	for _, c := range found.Containers {
		known, ok := facts.attempts[c.ID]
		if ok && known.State == podplan.RunExited {
			continue
		}
		if state := runState(c.State); !ok || known.State != state {
			a := attempt(c)
			a.BrokenOff = w.brokenOff(a)
			if state == podplan.RunExited && a.Message == "" {
				a.Message = w.terminationMessage(pod, c)
			}
			news = append(news, fact{Attempt: &a})
		}
	}
	if t := termination(pod, removed, facts.terminating, now); t != nil {
		news = append(news, fact{Terminating: t})
	}
	if !facts.admitted && facts.rejected == nil && !removed && pod.DeletionTimestamp == nil {
		verdict, err := w.admit(ctx, pod, found)
		if err != nil {
			return err
		}
		news = append(news, verdict)
	}
	if len(news) == 0 {
		return nil
	}
	return w.journal.record(news...)
}

// brokenOff says that the attempt ended before it ever ran, and that the agent that
// was starting it died before it heard how that went: the runtime takes back a
// start whose caller is gone.
func (w *worker) brokenOff(a podplan.Attempt) bool {
	number, asked := w.asked[a.Container]
	return asked && number == a.Number && a.State == podplan.RunExited &&
		(a.StartedAt.IsZero() || a.Reason == "StartError")
}

// admit asks once in a Pod's life whether the node takes it. One that already has
// a sandbox was taken by an agent whose journal is lost.
func (w *worker) admit(ctx context.Context, pod *v1.Pod, found runtime.Pod) (fact, error) {
	if len(found.Sandboxes) > 0 || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		w.admission.hold(pod)
		return fact{Admitted: true}, nil
	}
	refusal, err := w.admission.admit(ctx, pod)
	if err != nil {
		return fact{}, fmt.Errorf("admitting the Pod: %w", err)
	}
	if refusal != nil {
		w.log.Info("The node refuses the Pod", "reason", refusal.Code, "why", refusal.Text())
		return fact{Rejected: refusal}, nil
	}
	return fact{Admitted: true}, nil
}

// termination is the Pod's grace period where it begins or becomes shorter; nil
// where nothing changes. It never becomes longer and never begins again.
func termination(pod *v1.Pod, removed bool, known *podplan.Termination, now time.Time) *podplan.Termination {
	var seconds *int64
	switch {
	case pod.DeletionTimestamp != nil:
		seconds = pod.DeletionGracePeriodSeconds
	case !removed:
		return nil
	}
	if seconds == nil {
		seconds = pod.Spec.TerminationGracePeriodSeconds
	}
	grace := v1.DefaultTerminationGracePeriodSeconds * time.Second
	if seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	if known == nil {
		return &podplan.Termination{Since: now, Grace: grace}
	}
	if grace >= known.Grace {
		return nil
	}
	shorter := *known
	shorter.Grace = grace
	return &shorter
}

func sandboxes(found runtime.Pod, stopped map[string]bool) []podplan.Sandbox {
	var all []podplan.Sandbox
	for _, s := range found.Sandboxes {
		all = append(all, podplan.Sandbox{
			ID: s.ID, Attempt: int(s.Attempt), Ready: s.Ready, CreatedAt: s.CreatedAt, IPs: s.IPs, Stopped: stopped[s.ID] && !s.Ready,
		})
	}
	return all
}

// attempts is every known run: the runtime's word where it has one, else the
// journal's. A run that vanished before its end was seen is of unknown state.
func attempts(found runtime.Pod, facts *facts) []podplan.Attempt {
	all := maps.Clone(facts.attempts)
	for id, a := range all {
		a.Gone = true
		if a.State != podplan.RunExited {
			a.State = podplan.RunUnknown
		}
		all[id] = a
	}
	for _, c := range found.Containers {
		a := attempt(c)
		if a.Message == "" {
			a.Message = facts.attempts[c.ID].Message
		}
		a.BrokenOff = facts.attempts[c.ID].BrokenOff
		all[c.ID] = a
	}
	return slices.SortedFunc(maps.Values(all), olderAttempt)
}

func attempt(c runtime.Container) podplan.Attempt {
	return podplan.Attempt{
		Container: c.Name, Number: int(c.Attempt), ID: c.ID, SandboxID: c.SandboxID, State: runState(c.State),
		CreatedAt: c.CreatedAt, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt,
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message,
		Image: c.Image, ImageID: c.ImageID,
	}
}

func runState(s runtime.State) podplan.RunState {
	switch s {
	case runtime.Created:
		return podplan.RunCreated
	case runtime.Running:
		return podplan.RunRunning
	case runtime.Exited:
		return podplan.RunExited
	default:
		return podplan.RunUnknown
	}
}
