package podplan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/reason"
)

// leastGrace is what a container gets though the Pod's grace period is spent (or
// was 0): enough to see the signal.
const leastGrace = 2 * time.Second

// terminate stops everything: first app containers and init steps, together;
// then the sidecars, the last declared first; then the sandboxes. Nothing new
// ever starts.
func (d *decider) terminate() {
	if m := d.failedStep(); m != nil {
		d.because(reason.Reason{Code: reason.InitFailed, Object: m.Name, Count: len(m.attempts),
			Detail: fmt.Sprintf("exit code %d", m.last().code())})
	}
	if turn := d.stopTurn(); len(turn) > 0 {
		grace := d.ending.left(d.now)
		var names []string
		for _, a := range turn {
			d.stop(a, grace, "Stopping container "+a.Container)
			names = append(names, a.Container)
		}
		d.because(reason.Reason{Code: reason.ContainersStopping, Object: strings.Join(names, ", "), Asked: grace.Round(time.Second).String()})
		return
	}
	for _, s := range d.seen.Sandboxes {
		if s.stands() {
			d.do(Action{Verb: StopSandbox, ID: s.ID})
		}
	}
	for _, a := range d.unstarted() {
		d.remove(a)
	}
	if d.terminal() {
		d.decision.Terminal = true
		d.do(Action{Verb: Release})
	}
}

// stopTurn are the live attempts whose turn it is to be stopped.
func (d *decider) stopTurn() []Attempt {
	live := map[string][]Attempt{}
	for _, a := range d.seen.Attempts {
		if a.live() {
			live[a.Container] = append(live[a.Container], a)
		}
	}
	var first []Attempt
	for _, a := range d.seen.Attempts {
		if a.live() && !d.isSidecar(a.Container) {
			first = append(first, a)
		}
	}
	if len(first) > 0 {
		return first
	}
	for _, m := range slices.Backward(d.inits) {
		if len(live[m.Name]) > 0 {
			return live[m.Name]
		}
	}
	return nil
}

func (d *decider) isSidecar(name string) bool {
	return slices.ContainsFunc(d.inits, func(m *member) bool { return m.Name == name && m.role == sidecar })
}

// stop ends one attempt. The message is the one of the Killing event.
func (d *decider) stop(a Attempt, grace time.Duration, message string) {
	d.do(Action{Verb: StopContainer, Container: a.Container, ID: a.ID, Attempt: a.Number,
		Grace: grace, Reason: "Killing", Message: message})
}

// fullGrace is the grace period of a container that is stopped by itself.
func (v *view) fullGrace() time.Duration { return max(v.specGrace(), leastGrace) }

// stopUnknown stops an attempt of which the runtime does not know whether it
// runs, so that there are never two.
func (d *decider) stopUnknown(m *member, a Attempt) {
	what := "Container"
	if m.role != app {
		what = "Init container"
	}
	d.stop(a, d.fullGrace(), what+` is in "unknown" state, try killing it before restart`)
}

// obeyProbes stops what failed its probes while nothing may be started.
func (d *decider) obeyProbes() {
	for _, m := range d.members() {
		if a := m.running(); a != nil {
			d.obeyProbe(m, a)
		}
	}
}

// obeyProbe stops a running container whose startup or liveness probe failed;
// the restart rule does the rest.
func (d *decider) obeyProbe(m *member, a *Attempt) bool {
	p, known := d.seen.Probes[m.Name]
	if !known || p.ContainerID != a.ID || p.Failed == nil {
		return false
	}
	grace := d.fullGrace()
	if p.Failed.Grace != nil {
		grace = max(*p.Failed.Grace, leastGrace)
	}
	message := fmt.Sprintf("Container %s failed %s probe", m.Name, p.Failed.Kind)
	if m.policy != v1.RestartPolicyNever {
		message += ", will be restarted"
	}
	d.stop(*a, grace, message)
	return true
}
