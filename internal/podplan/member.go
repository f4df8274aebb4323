package podplan

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// kind is which of the three roles a container has in its Pod.
type kind string

const (
	initStep kind = "init container"
	sidecar  kind = "sidecar"
	app      kind = "container"
)

// member is one container of the Pod with all that is known of its runs.
type member struct {
	*v1.Container
	kind     kind
	policy   v1.RestartPolicy
	attempts []Attempt // oldest first, of every sandbox
	current  []Attempt // those of the present sandbox
}

// last is the newest attempt of any sandbox; nil when it never ran.
func (m *member) last() *Attempt { return newest(m.attempts) }

// latest is the newest attempt in the present sandbox; nil when there is none.
func (m *member) latest() *Attempt { return newest(m.current) }

// next is the number that the next attempt gets.
func (m *member) next() int {
	last := m.last()
	switch {
	case last == nil:
		return 0
	case last.State == RunCreated && !last.Gone:
		return last.Number
	default:
		return last.Number + 1
	}
}

// done says that an init step has ended with 0 in the present sandbox.
func (m *member) done() bool {
	for _, a := range m.current {
		if a.succeeded() {
			return true
		}
	}
	return false
}

// live says that some attempt of the container may still have processes.
func (m *member) live() bool {
	for _, a := range m.attempts {
		if a.live() {
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

// live says that the attempt may have processes: it runs, or the runtime cannot
// say that it does not.
func (a Attempt) live() bool {
	return !a.Gone && (a.State == RunRunning || a.State == RunUnknown)
}

// ended says that the attempt has run and will never run again.
func (a Attempt) ended() bool {
	return a.State == RunExited || a.Gone
}

func (a Attempt) succeeded() bool { return a.State == RunExited && a.ExitCode == 0 }

// endedAt is when the attempt ended; where nobody saw its end, the last moment
// it was known to exist.
func (a Attempt) endedAt() time.Time {
	switch {
	case !a.FinishedAt.IsZero():
		return a.FinishedAt
	case !a.StartedAt.IsZero():
		return a.StartedAt
	default:
		return a.CreatedAt
	}
}

// ran is how long the attempt was running.
func (a Attempt) ran() time.Duration {
	if a.StartedAt.IsZero() {
		return 0
	}
	return a.endedAt().Sub(a.StartedAt)
}
