package podplan

import (
	"fmt"
	"slices"
	"time"
)

// leastGrace is what a container gets though the Pod's grace period is spent (or
// was 0): enough to see the signal.
const leastGrace = 2 * time.Second

// killing is the event's reason when a container is stopped.
const killing = "Killing"

// terminate stops everything: first app containers and init steps, together;
// then the sidecars, the last declared first; then the sandboxes.
func (d *decider) terminate() {
	if d.stopWave() {
		return
	}
	for _, s := range d.seen.Sandboxes {
		if s.Ready {
			d.do(Action{Verb: StopSandbox, ID: s.ID})
		}
	}
	if !d.terminal() {
		return
	}
	d.decision.Terminal = true
	if d.ending.deletion {
		d.do(Action{Verb: Release})
	}
}

// stopWave stops the containers whose turn it is; false when none is left.
func (d *decider) stopWave() bool {
	grace := max(d.ending.since.Add(d.ending.grace).Sub(d.now), leastGrace)
	isSidecar := map[string]bool{}
	for _, m := range d.inits {
		isSidecar[m.Name] = m.kind == sidecar
	}
	stopped := false
	for _, a := range d.seen.Attempts {
		if a.live() && !isSidecar[a.Container] {
			d.stop(a, grace, "Stopping container "+a.Container)
			stopped = true
		}
	}
	if stopped {
		return true
	}
	for _, m := range slices.Backward(d.inits) {
		if m.kind == sidecar && m.live() {
			for _, a := range m.attempts {
				if a.live() {
					d.stop(a, grace, "Stopping container "+a.Container)
				}
			}
			return true
		}
	}
	return false
}

func (d *decider) stop(a Attempt, grace time.Duration, message string) {
	d.do(Action{Verb: StopContainer, Container: a.Container, ID: a.ID, Attempt: a.Number, Grace: grace, Reason: killing, Message: message})
}

// restartForProbe stops a running container whose startup or liveness probe failed.
func (d *decider) restartForProbe(m *member, a *Attempt) bool {
	p, known := d.seen.Probes[m.Name]
	if !known || p.ContainerID != a.ID || p.Failed == nil {
		return false
	}
	grace := d.specGrace()
	if p.Failed.Grace != nil {
		grace = *p.Failed.Grace
	}
	what := ", will be restarted"
	if !m.restarts(&Attempt{State: RunExited, ExitCode: lostExitCode}) {
		what = ""
	}
	d.stop(*a, max(grace, leastGrace), fmt.Sprintf("Container %s failed %s probe%s", m.Name, p.Failed.Kind, what))
	return true
}
