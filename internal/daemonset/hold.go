package daemonset

import (
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/reason"
)

// RolloutHeld is the condition of a set whose update waits for nodes that have
// been without an available Pod for longer than an ordinary start takes. Its
// message names them.
const RolloutHeld appsv1.DaemonSetConditionType = "RolloutHeld"

// patience is how long an update may wait for the nodes it waits for before that
// is worth telling.
const patience = 2 * time.Minute

// hold records that an update waits, and for which nodes.
func (d *decider) hold(code reason.Code, count, budget int, holders []*place) {
	const few = 5
	var names []string
	for _, p := range holders {
		if len(names) == few {
			names = append(names, "and "+strconv.Itoa(len(holders)-few)+" more")
			break
		}
		names = append(names, p.Node.Name)
	}
	d.held = &reason.Reason{Code: code, Count: count, Asked: strconv.Itoa(budget), Object: strings.Join(names, ", ")}
	d.plan.Reasons = append(d.plan.Reasons, *d.held)
	for _, p := range holders {
		if since := quietSince(p); since.After(d.heldSince) {
			d.heldSince = since
		}
	}
}

// quietSince is the last time something was seen to happen to a node's Pods: an
// update only counts as held when that is long ago on every node it waits for.
func quietSince(p *place) time.Time {
	latest := p.Node.CreationTimestamp.Time
	for _, pod := range p.Pods {
		times := []time.Time{pod.CreationTimestamp.Time}
		if pod.DeletionTimestamp != nil {
			times = append(times, pod.DeletionTimestamp.Time)
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == v1.PodReady {
				times = append(times, condition.LastTransitionTime.Time)
			}
		}
		latest = slices.MaxFunc(append(times, latest), time.Time.Compare)
	}
	return latest
}

// conditions are the set's with RolloutHeld brought up to date; those of others
// stay as they are.
func (d *decider) conditions() []appsv1.DaemonSetCondition {
	mine := func(c appsv1.DaemonSetCondition) bool { return c.Type == RolloutHeld }
	rest := slices.DeleteFunc(slices.Clone(d.set.Status.Conditions), mine)
	if d.held == nil {
		return rest
	}
	if due := d.heldSince.Add(patience); d.now.Before(due) {
		d.plan.comeBack(due)
		return rest
	}
	held := appsv1.DaemonSetCondition{
		Type: RolloutHeld, Status: v1.ConditionTrue, Reason: string(d.held.Code), Message: d.held.Text(),
		LastTransitionTime: metav1.NewTime(d.now.Truncate(time.Second)),
	}
	if at := slices.IndexFunc(d.set.Status.Conditions, mine); at >= 0 {
		held.LastTransitionTime = d.set.Status.Conditions[at].LastTransitionTime
	}
	return append(rest, held)
}

// HeldBy is the message of a status that says its update is held; empty where it
// is not.
func HeldBy(status appsv1.DaemonSetStatus) string {
	for _, condition := range status.Conditions {
		if condition.Type == RolloutHeld {
			return condition.Message
		}
	}
	return ""
}

// Onto puts our status on a newer one of the same set: conditions that others own
// and the count of collisions stay theirs.
func Onto(newer, ours appsv1.DaemonSetStatus) appsv1.DaemonSetStatus {
	kept := slices.DeleteFunc(slices.Clone(newer.Conditions), func(c appsv1.DaemonSetCondition) bool { return c.Type == RolloutHeld })
	for _, condition := range ours.Conditions {
		if condition.Type == RolloutHeld {
			kept = append(kept, condition)
		}
	}
	ours.Conditions, ours.CollisionCount = kept, newer.CollisionCount
	return ours
}
