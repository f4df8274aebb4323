package agent

import (
	"cmp"
	"maps"
	"slices"

	"muster.dev/muster/internal/podplan"
	"muster.dev/muster/internal/reason"
)

// attemptsKept is how many attempts of one container outlive a compaction: more
// than it takes for the restart back-off to reach its longest wait.
const attemptsKept = 16

// facts is what a journal says, put together.
type facts struct {
	attempts        map[string]podplan.Attempt // by runtime ID
	sandboxAttempts int
	starting        map[string]int // by container: the last attempt whose start was asked for
	terminating     *podplan.Termination
	rejected        *reason.Reason
	admitted        bool
}

func newFacts() facts {
	return facts{attempts: map[string]podplan.Attempt{}, starting: map[string]int{}}
}

func (s *facts) add(f fact) {
	switch {
	case f.Attempt != nil:
		s.attempts[f.Attempt.ID] = *f.Attempt
	case f.Sandbox != 0:
		s.sandboxAttempts = max(s.sandboxAttempts, f.Sandbox)
	case f.Starting != nil:
		s.starting[f.Starting.Container] = f.Starting.Attempt
	case f.Terminating != nil:
		s.terminating = f.Terminating
	case f.Rejected != nil:
		s.rejected = f.Rejected
	case f.Admitted:
		s.admitted = true
	}
}

// list is the shortest journal that says the same.
func (s *facts) list() []fact {
	var all []fact
	if s.admitted {
		all = append(all, fact{Admitted: true})
	}
	if s.rejected != nil {
		all = append(all, fact{Rejected: s.rejected})
	}
	if s.sandboxAttempts != 0 {
		all = append(all, fact{Sandbox: s.sandboxAttempts})
	}
	if s.terminating != nil {
		all = append(all, fact{Terminating: s.terminating})
	}
	for _, container := range slices.Sorted(maps.Keys(s.starting)) {
		all = append(all, fact{Starting: &starting{Container: container, Attempt: s.starting[container]}})
	}
	for _, attempt := range s.byAge() {
		all = append(all, fact{Attempt: &attempt})
	}
	return all
}

// forgetOldest drops what no back-off and no status can need any more.
func (s *facts) forgetOldest() {
	kept := map[string]int{}
	for _, attempt := range slices.Backward(s.byAge()) {
		if kept[attempt.Container]++; kept[attempt.Container] > attemptsKept {
			delete(s.attempts, attempt.ID)
		}
	}
}

// byAge is all attempts, oldest first.
func (s *facts) byAge() []podplan.Attempt {
	return slices.SortedFunc(maps.Values(s.attempts), olderAttempt)
}

func olderAttempt(a, b podplan.Attempt) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Number, b.Number), cmp.Compare(a.ID, b.ID))
}
