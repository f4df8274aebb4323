package podplan

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// role is what a container is in its Pod.
type role string

const (
	initStep role = "init step" // runs once, to success, before what is declared after it
	sidecar  role = "sidecar"   // an init container that keeps running beside the apps
	app      role = "app"
	// ephemeral containers are for looking into a Pod that runs; they hold up
	// nothing and are never restarted.
	ephemeral role = "ephemeral"
)

// member is one container of the Pod with all that is known of its runs.
type member struct {
	*v1.Container
	role   role
	policy v1.RestartPolicy
	// attempts are its runs in every sandbox, current those in the present one;
	// oldest first.
	attempts, current []Attempt
	// brokenOff are starts that came to nothing with the agent that asked for them.
	brokenOff []Attempt
	// passed says that the start of what is declared after it need not wait for it;
	// turn that it should run now. Both are about the present sandbox.
	passed, turn bool
}

// last is the newest attempt of any sandbox; nil when it never ran.
func (m *member) last() *Attempt { return newest(m.attempts) }

// latest is the newest attempt in the present sandbox; nil when there is none.
func (m *member) latest() *Attempt { return newest(m.current) }

// pending is an attempt in the present sandbox that was made but not started;
// nil when there is none.
func (m *member) pending() *Attempt {
	if a := m.latest(); a != nil && a.State == RunCreated && !a.Gone {
		return a
	}
	return nil
}

// running is the attempt that runs in the present sandbox; nil when none does.
func (m *member) running() *Attempt {
	if a := m.latest(); a != nil && a.State == RunRunning && !a.Gone {
		return a
	}
	return nil
}

// next is the number of the attempt that is to be started.
func (m *member) next() int {
	if a := m.pending(); a != nil {
		return a.Number
	}
	if a := m.last(); a != nil {
		return a.Number + 1
	}
	return 0
}

// inTheWay is a start that was broken off and still holds the number of the next;
// nil when there is none.
func (m *member) inTheWay() *Attempt {
	for i := range m.brokenOff {
		if !m.brokenOff[i].Gone {
			return &m.brokenOff[i]
		}
	}
	return nil
}

// madeIn says that a container of this member was ever made in the sandbox.
func (m *member) madeIn(s *Sandbox) bool {
	return len(m.current) > 0 || slices.ContainsFunc(m.brokenOff, func(a Attempt) bool { return a.SandboxID == s.ID })
}

// succeeded says that the container has ended with 0 in the present sandbox.
func (m *member) succeeded() bool {
	for _, a := range m.current {
		if a.succeeded() {
			return true
		}
	}
	return false
}

func newest(attempts []Attempt) *Attempt {
	if len(attempts) == 0 {
		return nil
	}
	return &attempts[len(attempts)-1]
}
