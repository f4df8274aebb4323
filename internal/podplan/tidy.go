package podplan

// tidy removes what nobody needs any more: of each container all ended attempts
// but the last, and old sandboxes once nothing of them is left.
func (d *decider) tidy() {
	for _, m := range d.members() {
		ended := d.heldEnded(m)
		for _, a := range ended[:max(len(ended)-1, 0)] {
			d.do(Action{Verb: RemoveContainer, Container: a.Container, ID: a.ID, Attempt: a.Number})
		}
	}
	for _, s := range d.seen.Sandboxes[min(1, len(d.seen.Sandboxes)):] {
		switch {
		case s.Ready:
			d.do(Action{Verb: StopSandbox, ID: s.ID})
		case !d.holdsAny(s):
			d.do(Action{Verb: RemoveSandbox, ID: s.ID})
		}
	}
}

// heldEnded are the container's ended attempts that the runtime still holds.
func (d *decider) heldEnded(m *member) []Attempt {
	var held []Attempt
	for _, a := range m.attempts {
		if a.ended() && !a.Gone {
			held = append(held, a)
		}
	}
	return held
}

func (d *decider) holdsAny(s Sandbox) bool {
	for _, a := range d.seen.Attempts {
		if a.SandboxID == s.ID && !a.Gone {
			return true
		}
	}
	return false
}
