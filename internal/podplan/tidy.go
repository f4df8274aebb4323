package podplan

// tidy removes what nobody needs any more: of each container all ended attempts
// but the last, attempts that were never started in a sandbox that is no more,
// and old sandboxes once nothing of them is left. The record of what ran stays.
func (d *decider) tidy() {
	for _, m := range d.members() {
		held := heldEnded(m)
		for _, a := range held[:max(len(held)-1, 0)] {
			d.remove(a)
		}
	}
	for _, a := range d.unstarted() {
		d.remove(a)
	}
	for i, s := range d.seen.Sandboxes {
		if i > 0 && !s.Ready && !d.holdsAny(s) {
			d.do(Action{Verb: RemoveSandbox, ID: s.ID})
		}
	}
}

func (d *decider) remove(a Attempt) {
	d.do(Action{Verb: RemoveContainer, Container: a.Container, ID: a.ID, Attempt: a.Number})
}

// heldEnded are the container's ended attempts that the runtime still holds.
func heldEnded(m *member) []Attempt {
	var held []Attempt
	for _, a := range m.attempts {
		if a.ended() && !a.Gone {
			held = append(held, a)
		}
	}
	return held
}

// holdsAny says that the runtime still holds a container of the sandbox.
func (d *decider) holdsAny(s Sandbox) bool {
	for _, a := range d.seen.Attempts {
		if a.SandboxID == s.ID && !a.Gone {
			return true
		}
	}
	return false
}
