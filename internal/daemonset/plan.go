package daemonset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/reason"
)

// Input is what is decided on. All objects are shared and only read.
type Input struct {
	// Column is the daemon's column of the matrix.
	Column coverage.Column
	// Revisions are all ControllerRevisions of the set's namespace; which of them
	// are the set's, and which merely have a name it would like, is decided here.
	Revisions []*appsv1.ControllerRevision
	// Orphans are the Pods of the set's namespace that nothing controls.
	Orphans []*v1.Pod
	// Failures are those of the last Plan.
	Failures Failures
	// Fits says why a Pod does not fit on a node now; no reasons: it fits, and is
	// created bound. A nil Fits leaves every Pod to placement.
	Fits Fits
}

// Fits says why a Pod does not fit on a node; none where it does.
type Fits func(pod *v1.Pod, node *v1.Node) []reason.Reason

// Plan is what to do about one daemon now. The zero Plan does nothing. Parts are
// carried out in the order of the fields, and each only if those before it succeeded.
type Plan struct {
	// Set is the version of the set decided on.
	Set *appsv1.DaemonSet
	// Adopt are orphans to take over, Release Pods to let go because the set's
	// selector no longer chooses them. A plan with either has nothing else: who is
	// there must be settled before anything is counted.
	Adopt, Release []*v1.Pod
	// History is what to do about the set's revisions.
	History History
	// Delete and Create are in the order in which nodes are to be served.
	Delete []Deletion
	Create []Creation
	// Status is the set's status as the column now stands.
	Status appsv1.DaemonSetStatus
	// Reasons say what holds an update, and what the set's owner should know.
	Reasons []reason.Reason
	// Failures are to be handed to the next Decide.
	Failures Failures
	// Next is when to decide again though nothing happens; zero: only on news.
	Next time.Time
}

// Deletion is one Pod to delete. It is to be refused if the Pod's UID has changed.
type Deletion struct {
	Pod *v1.Pod
	// Unready says that the Pod may only be deleted because it is not Ready: the
	// delete must be refused if the Pod has changed since (its resourceVersion).
	Unready bool
	Reason  reason.Reason
}

// Creation is one Pod to create. Its name is already taken if it was created
// before, by whomever; then there is nothing to do.
type Creation struct {
	Pod    *v1.Pod
	Node   string
	Reason reason.Reason
	// Unfit says why the Pod is created unbound; none where it is bound.
	Unfit []reason.Reason
}

// Acts says that the plan changes anything besides the status.
func (p Plan) Acts() bool {
	return len(p.Adopt)+len(p.Release)+len(p.Create)+len(p.Delete) > 0 || p.History.acts()
}

// comeBack moves Next forward to due if that is sooner.
func (p *Plan) comeBack(due time.Time) {
	if p.Next.IsZero() || due.Before(p.Next) {
		p.Next = due
	}
}
