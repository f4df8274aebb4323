package podplan

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/reason"
)

// Decide says what to do about a Pod now, given all that is known of it.
func Decide(pod *v1.Pod, seen Observed, now time.Time) Decision {
	d := &decider{view: look(pod, seen, now)}
	if d.ending != nil {
		d.terminate()
		return d.decision
	}
	d.again(d.deadline())
	d.tidy()
	volumes := d.haveVolumes()
	if d.haveSandbox(volumes) && volumes {
		d.bringForward()
	} else {
		d.obeyProbes()
	}
	return d.decision
}

// decider gathers one Decision.
type decider struct {
	*view
	decision Decision
}

func (d *decider) do(a Action) { d.decision.Actions = append(d.decision.Actions, a) }

func (d *decider) because(r reason.Reason) { d.decision.Reasons = append(d.decision.Reasons, r) }

// again asks for another decision at that time, if it is still to come.
func (d *decider) again(at time.Time) {
	if at.After(d.now) && (d.decision.Next.IsZero() || at.Before(d.decision.Next)) {
		d.decision.Next = at
	}
}

// haveVolumes has the Pod's volumes made; true when they are there.
func (d *decider) haveVolumes() bool {
	if d.seen.Volumes.Ready {
		return true
	}
	d.do(Action{Verb: PrepareVolumes})
	if why := d.seen.Volumes.Failure; why != nil {
		d.because(*why)
	}
	return false
}

// bringForward starts each container whose turn it is and keeps it running.
func (d *decider) bringForward() {
	for _, m := range slices.Concat(d.members(), d.ephemerals) {
		if m.turn {
			d.keepRunning(m)
		}
	}
}

// keepRunning starts the container unless it runs, and stops it if a probe or an
// unknown state asks for it.
func (d *decider) keepRunning(m *member) {
	if a := m.running(); a != nil {
		if !d.obeyProbe(m, a) {
			d.explainRunning(m, a)
		}
		return
	}
	if a := m.latest(); a != nil && a.live() {
		d.stopUnknown(m, *a)
		return
	}
	d.start(m)
}

// explainRunning says why a container that runs is not yet all that is waited for.
func (d *decider) explainRunning(m *member, a *Attempt) {
	since := d.now.Sub(a.StartedAt).Round(time.Second).String()
	switch {
	case m.role == initStep:
		d.because(reason.Reason{Code: reason.InitRunning, Object: m.Name, Asked: since})
	case m.role == sidecar && !m.passed:
		d.because(reason.Reason{Code: reason.SidecarNotStarted, Object: m.Name, Asked: since})
	case !d.ready(m):
		d.because(reason.Reason{Code: reason.ContainerUnready, Object: m.Name})
	}
}

// start starts the container unless something must be waited for or fetched first.
func (d *decider) start(m *member) {
	if a := m.inTheWay(); a != nil {
		d.remove(*a) // it holds the number of the attempt that is to come
		return
	}
	if w := d.startWait(m); w != nil {
		d.again(w.Until)
		d.because(w.reason(m.Name))
		return
	}
	if !d.imageHere(m) {
		d.because(reason.Reason{Code: reason.ContainerWaiting, Object: m.Name, Detail: "pulling image " + m.Image})
		if !d.image(m).Pulling {
			d.do(Action{Verb: PullImage, Container: m.Name, Attempt: m.next()})
		}
		return
	}
	action := Action{Verb: StartContainer, Container: m.Name, Attempt: m.next()}
	if a := m.pending(); a != nil {
		action.ID = a.ID
	}
	d.do(action)
}
