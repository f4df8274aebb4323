package daemonset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/reason"
)

// Decide says what to do about a daemon now. A set that is being deleted is left
// to the garbage collector.
func Decide(in Input, now time.Time) Plan {
	set := in.Column.Set
	plan := Plan{Set: set, Failures: in.Failures.kept(now)}
	if set.DeletionTimestamp != nil {
		plan.Status = set.Status
		return plan
	}
	plan.Adopt, plan.Release = claims(set, in)
	if len(plan.Adopt)+len(plan.Release) > 0 {
		plan.Status = set.Status
		return plan
	}
	plan.History = history(set, in.Revisions, liveHashes(in.Column))
	if plan.History.Collided {
		plan.Status = collided(set)
		return plan
	}
	d := decider{set: set, in: in, now: now, plan: &plan}
	d.minReady = time.Duration(set.Spec.MinReadySeconds) * time.Second
	d.surge, d.unavailable = budgets(set, in.Column.Counts.Wanted)
	d.tend()
	d.update()
	plan.Status = d.status()
	return plan
}

// decider is one Decide at work.
type decider struct {
	set                *appsv1.DaemonSet
	in                 Input
	now                time.Time
	minReady           time.Duration
	surge, unavailable int // the budgets of a RollingUpdate, in nodes
	wanted             []*place
	staying            []*place // nodes that want no Pod now and have one that may stay
	plan               *Plan
	held               *reason.Reason // what an update waits for; nil if it does not
	heldSince          time.Time      // the last thing that happened where it waits
}

// place is one node while it is decided on.
type place struct {
	coverage.Cell
	old, new *v1.Pod // the live Pods that are kept: of outdated and of current revision
}

// tend does what is due on every node whatever the update strategy says.
func (d *decider) tend() {
	for _, cell := range d.in.Column.Cells {
		switch {
		case cell.Wanted:
			d.wanted = append(d.wanted, d.keepOne(cell))
		case cell.MayStay:
			if p := d.keepOne(cell); len(p.Pods) > 0 {
				d.staying = append(d.staying, p)
			}
		default:
			for _, pod := range cell.Pods {
				d.delete(pod, reason.Reason{Code: reason.NodeNotWanted, Object: cell.Node.Name, Detail: texts(cell.Reasons)})
			}
		}
	}
	// A bound Pod whose node is gone is Pod collection's; one that only waits for
	// such a node would wait for ever.
	for _, pod := range d.in.Column.Adrift {
		if pod.Spec.NodeName == "" {
			d.delete(pod, reason.Reason{Code: reason.NodeGone, Object: coverage.TargetOf(pod)})
		}
	}
	for _, p := range d.wanted {
		if len(p.Pods) == 0 {
			d.create(p, reason.Reason{Code: reason.NodeUncovered, Object: p.Node.Name})
		}
	}
}

// keepOne deletes what is too much on a node: failed Pods when their back-off is
// over, and all but the Pod that stays; while surging, one of each revision.
func (d *decider) keepOne(cell coverage.Cell) *place {
	p := &place{Cell: cell}
	for _, pod := range cell.Pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		if coverage.Ended(pod) {
			d.replaceFailed(cell.Node, pod)
			continue
		}
		stays := &p.old
		if d.plan.History.current(coverage.RevisionOf(pod)) {
			stays = &p.new
		}
		if *stays != nil || (d.surge == 0 && (p.old != nil || p.new != nil)) {
			d.delete(pod, reason.Reason{Code: reason.DuplicatePod, Object: cell.Node.Name})
			continue
		}
		*stays = pod
	}
	return p
}

func (d *decider) replaceFailed(node *v1.Node, pod *v1.Pod) {
	revision := coverage.RevisionOf(pod)
	failure := d.plan.Failures[node.UID]
	detail := string(pod.Status.Phase)
	if pod.Status.Reason != "" {
		detail = pod.Status.Reason
	}
	if due := failure.due(revision); d.now.Before(due) {
		d.plan.comeBack(due)
		d.plan.Reasons = append(d.plan.Reasons, reason.Reason{
			Code: reason.FailedPodBackOff, Object: pod.Name, Count: failure.Count, Detail: detail,
			Asked: due.Sub(d.now).Round(time.Second).String(),
		})
		return
	}
	d.plan.Failures[node.UID] = failure.after(revision, d.now)
	d.delete(pod, reason.Reason{Code: reason.FailedPod, Object: node.Name, Detail: detail})
}

// delete plans the end of a Pod, unless it is on its way already.
func (d *decider) delete(pod *v1.Pod, why reason.Reason) {
	if pod.DeletionTimestamp == nil {
		d.plan.Delete = append(d.plan.Delete, Deletion{Pod: pod, Reason: why})
	}
}

// create plans the current revision's Pod on a node, bound where it fits. It says
// no while a Pod of that very name (a failed one, one that is stopping) is there.
func (d *decider) create(p *place, why reason.Reason) bool {
	pod := manifest(d.set, p.Node, d.plan.History.hash, d.surge > 0)
	if slices.ContainsFunc(p.Pods, func(other *v1.Pod) bool { return other.Name == pod.Name }) {
		return false
	}
	creation := Creation{Pod: pod, Node: p.Node.Name, Reason: why}
	if bindable(&pod.Spec) && d.in.Fits != nil {
		creation.Unfit = d.in.Fits(pod, p.Node)
		if len(creation.Unfit) == 0 {
			pod.Spec.NodeName = p.Node.Name
		}
	}
	d.plan.Create = append(d.plan.Create, creation)
	return true
}

func (d *decider) available(pod *v1.Pod) bool {
	at, ready := coverage.AvailableAt(pod, d.minReady)
	return ready && !d.now.Before(at)
}

// claims are the orphans to adopt and the Pods to release: a set owns the Pods
// its selector chooses, and takes none that something else controls.
func claims(set *appsv1.DaemonSet, in Input) (adopt, release []*v1.Pod) {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil || selector.Empty() {
		return nil, nil
	}
	for _, pod := range in.Orphans {
		if coverage.Live(pod) && metav1.GetControllerOfNoCopy(pod) == nil && selector.Matches(labels.Set(pod.Labels)) {
			adopt = append(adopt, pod)
		}
	}
	for pod := range podsOf(in.Column) {
		if pod.DeletionTimestamp == nil && !selector.Matches(labels.Set(pod.Labels)) {
			release = append(release, pod)
		}
	}
	slices.SortFunc(adopt, byName)
	return adopt, release
}
