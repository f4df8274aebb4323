package podplan

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// giveTurns says whose turn it is in the present sandbox: init containers one
// after the other as declared, then all app containers together. What stands
// first holds up the rest until it is passed.
//
// That a container later in the order has been made in this sandbox proves that
// those before it were passed, even where the record of their runs is lost: so
// an init step never runs again beside or after what had waited for it.
// Ephemeral containers stand outside of this order.
func (v *view) giveTurns() {
	if v.sandbox == nil {
		return
	}
	held := false
	for i, m := range v.inits {
		m.passed = v.laterMade(i) || v.through(m)
		m.turn = !held && (m.role == sidecar || !m.passed)
		held = held || !m.passed
	}
	for _, m := range v.apps {
		m.turn = !held && !v.final(m)
	}
	for _, m := range v.ephemerals {
		m.turn = len(m.attempts) == 0 || m.pending() != nil // once, whatever the others do
	}
}

// through says that an init container has come as far as its successors need.
func (v *view) through(m *member) bool {
	if m.role == sidecar {
		return v.started(m)
	}
	return m.succeeded()
}

// laterMade says that a container that starts after the init container at i has
// been made in the present sandbox.
func (v *view) laterMade(i int) bool {
	return slices.ContainsFunc(v.members()[i+1:], func(m *member) bool { return m.madeIn(v.sandbox) })
}

// initialized says that the app containers of the present sandbox may run.
func (v *view) initialized() bool {
	return v.sandbox != nil && !slices.ContainsFunc(v.inits, func(m *member) bool { return !m.passed })
}

// failedStep is an init step that failed and is not tried again; nil when none did.
func (v *view) failedStep() *member {
	for _, m := range v.inits {
		last := m.last()
		if m.role == initStep && !m.passed && last != nil && last.ended() && !last.succeeded() && !m.restarts(last) {
			return m
		}
	}
	return nil
}

// final says that an app container has run for the last time.
func (v *view) final(m *member) bool {
	if last := m.last(); last != nil {
		return last.ended() && !m.restarts(last)
	}
	// A Pod that lost its sandbox after its app containers began gets no other if
	// nothing of it restarts; what had not started then never will.
	return m.policy == v1.RestartPolicyNever && v.sandbox == nil && slices.ContainsFunc(v.apps, func(m *member) bool {
		return len(m.attempts) > 0
	})
}
