package daemonset

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The back-off between replacements of failed Pods, per set, revision and node.
const (
	firstBackOff = time.Second
	lastBackOff  = 15 * time.Minute
)

// Failures remember the failed Pods of one set by the UID of their node. What is
// forgotten (at a restart) costs one replacement without a wait.
type Failures map[types.UID]Failure

// Failure is the run of failures of one revision on one node.
type Failure struct {
	Revision string
	// Count is the number of failed Pods replaced in a row, the last one at Last.
	Count int
	Last  time.Time
}

// due is when the next failed Pod of the revision may be replaced; the zero time
// for the first one.
func (f Failure) due(revision string) time.Time {
	if f.Count == 0 || f.Revision != revision {
		return time.Time{}
	}
	wait := lastBackOff
	if f.Count <= 10 { // 1 s doubled ten times passes the last back-off
		wait = min(firstBackOff<<(f.Count-1), lastBackOff)
	}
	return f.Last.Add(wait)
}

// after is the memory once one more failed Pod has been replaced.
func (f Failure) after(revision string, now time.Time) Failure {
	if f.Revision != revision {
		f = Failure{Revision: revision}
	}
	return Failure{Revision: revision, Count: f.Count + 1, Last: now}
}

// kept is a copy without what is over: a node that had no failure for twice the
// longest wait starts anew.
func (f Failures) kept(now time.Time) Failures {
	kept := Failures{}
	for node, failure := range f {
		if now.Sub(failure.Last) < 2*lastBackOff {
			kept[node] = failure
		}
	}
	return kept
}
