package podplan

import (
	"time"

	"muster.dev/muster/internal/reason"
)

// order brings the Pod forward: init containers one after the other as declared,
// then the app containers together.
func (d *decider) order() {
	appSeen := d.appSeen()
	held := false
	for i, m := range d.inits {
		switch {
		case m.kind == sidecar:
			d.keepRunning(m, !held)
			held = held || !(d.started(m) || appSeen || d.laterSeen(i))
		case appSeen || m.done():
		default:
			d.keepRunning(m, !held)
			held = true
		}
	}
	for _, m := range d.apps {
		if !d.final(m) {
			d.keepRunning(m, !held)
		}
	}
}

// laterSeen says that an init container after the one at i has been made in the
// present sandbox, so that the one at i has had its turn.
func (d *decider) laterSeen(i int) bool {
	for _, m := range d.inits[i+1:] {
		if len(m.current) > 0 {
			return true
		}
	}
	return false
}

// keepRunning starts the container if it is its turn and it does not run, and
// stops it if a probe says so. A container that has had its turn in this sandbox
// keeps it.
func (d *decider) keepRunning(m *member, turn bool) {
	latest := m.latest()
	switch {
	case latest != nil && latest.State == RunRunning && !latest.Gone:
		if !d.restartForProbe(m, latest) && m.kind == initStep {
			d.because(reason.Reason{Code: reason.InitRunning, Object: m.Name, Asked: d.now.Sub(latest.StartedAt).Round(time.Second).String()})
		}
	case latest != nil && latest.State == RunUnknown && !latest.Gone:
		d.stop(*latest, max(d.specGrace(), leastGrace), "Container is in unknown state, try killing it before restart")
	case turn || latest != nil:
		d.start(m)
	}
}

// start starts the container unless something must be waited for or fetched first.
func (d *decider) start(m *member) {
	if w := d.startWait(m); w != nil {
		d.again(w.Until)
		d.because(w.reason(m.Name))
		return
	}
	if !d.imageHere(m) {
		if !d.image(m).Pulling {
			d.do(Action{Verb: PullImage, Container: m.Name, Attempt: m.next()})
		}
		return
	}
	action := Action{Verb: StartContainer, Container: m.Name, Attempt: m.next()}
	if latest := m.latest(); latest != nil && latest.State == RunCreated && !latest.Gone {
		action.ID = latest.ID
	}
	d.do(action)
}

// watch is order while nothing may start: probes are still obeyed.
func (d *decider) watch() {
	for _, m := range d.members() {
		if latest := m.latest(); latest != nil && latest.State == RunRunning && !latest.Gone {
			d.restartForProbe(m, latest)
		}
	}
}
