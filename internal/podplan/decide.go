package podplan

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/reason"
)

// decider gathers one Decision.
type decider struct {
	*view
	decision Decision
}

// Decide says what to do about a Pod now, given all that is known of it.
func Decide(pod *v1.Pod, seen Observed, now time.Time) Decision {
	d := &decider{view: look(pod, seen, now)}
	if d.ending != nil {
		d.terminate()
		return d.decision
	}
	d.again(d.deadline())
	d.tidy()
	if d.volumes() && d.ownSandbox() {
		d.order()
	} else {
		d.watch()
	}
	return d.decision
}

func (d *decider) do(a Action) { d.decision.Actions = append(d.decision.Actions, a) }

func (d *decider) because(r reason.Reason) { d.decision.Reasons = append(d.decision.Reasons, r) }

// again asks for another decision at that time, if it is still to come.
func (d *decider) again(at time.Time) {
	if at.After(d.now) && (d.decision.Next.IsZero() || at.Before(d.decision.Next)) {
		d.decision.Next = at
	}
}

// volumes has the Pod's volumes made; true when they are there.
func (d *decider) volumes() bool {
	if d.seen.Volumes.Ready {
		return true
	}
	d.do(Action{Verb: PrepareVolumes})
	if why := d.seen.Volumes.Failure; why != nil {
		d.because(*why)
	}
	return false
}

// ownSandbox has a sandbox made where none lives; true when one does. Nothing of
// a dead sandbox runs on beside a new one.
func (d *decider) ownSandbox() bool {
	strays := d.strays()
	for _, a := range strays {
		d.stop(a, max(d.specGrace(), leastGrace), "Pod sandbox changed, it will be killed and re-created.")
	}
	if d.sandbox != nil {
		return true
	}
	if len(strays) > 0 {
		return false
	}
	at, attempt := time.Time{}, d.seen.SandboxAttempts
	if len(d.seen.Sandboxes) > 0 {
		newest := d.seen.Sandboxes[0]
		attempt = max(attempt, newest.Attempt+1)
		// A sandbox that dies young again and again is made anew ever more rarely.
		at = newest.CreatedAt.Add(restartBackOff.after(attempt - 1))
	}
	if f := d.seen.SandboxFailure; f != nil {
		d.because(reason.Reason{Code: reason.ContainerCreating, Object: d.pod.Name, Detail: f.Reason + ": " + f.Message})
		if retry := f.At.Add(sandboxBackOff.after(f.Count)); retry.After(at) {
			at = retry
		}
	}
	if at.After(d.now) {
		d.again(at)
		return false
	}
	d.do(Action{Verb: RunSandbox, Attempt: attempt})
	return false
}
