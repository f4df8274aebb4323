package daemonset

import (
	appsv1 "k8s.io/api/apps/v1"

	"muster.dev/muster/internal/coverage"
)

// status is what the column shows. Every wanted node counts by the one Pod that
// stands for it, so that no number is above the desired one, and an update is not
// done before the old Pods have handed over.
func (d *decider) status() appsv1.DaemonSetStatus {
	counts := d.in.Column.Counts
	status := d.set.Status
	status.ObservedGeneration = d.set.Generation
	status.DesiredNumberScheduled = int32(counts.Wanted)
	status.CurrentNumberScheduled = int32(counts.Current)
	status.NumberMisscheduled = int32(counts.Misscheduled)
	status.NumberReady = int32(counts.Ready)
	status.UpdatedNumberScheduled, status.NumberAvailable = 0, 0
	for _, p := range d.wanted {
		pod := p.Pod()
		if pod == nil {
			continue
		}
		if d.plan.History.current(coverage.RevisionOf(pod)) {
			status.UpdatedNumberScheduled++
		}
		if d.available(pod) {
			status.NumberAvailable++
		}
		// A Ready Pod becomes available by the passing of time alone.
		if at, ready := coverage.AvailableAt(pod, d.minReady); ready && d.now.Before(at) {
			d.plan.comeBack(at)
		}
		if p.new != nil && p.new != pod {
			if at, ready := coverage.AvailableAt(p.new, d.minReady); ready && d.now.Before(at) {
				d.plan.comeBack(at)
			}
		}
	}
	status.Conditions = d.conditions()
	status.NumberUnavailable = status.DesiredNumberScheduled - status.NumberAvailable
	return status
}

// collided counts one more name found taken, and nothing else.
func collided(set *appsv1.DaemonSet) appsv1.DaemonSetStatus {
	status := *set.Status.DeepCopy()
	if status.CollisionCount == nil {
		status.CollisionCount = new(int32)
	}
	*status.CollisionCount++
	return status
}
