package daemonset

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/reason"
)

// budgets are how many nodes may have an extra Pod and how many may lack an
// available one while a set is updated; a set that surges goes by the first alone.
// Percentages are of the wanted nodes, rounded up. Both are zero for OnDelete.
func budgets(set *appsv1.DaemonSet, wanted int) (surge, unavailable int) {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		return 0, 0
	}
	if rolling == nil {
		return 0, 1
	}
	surge, unavailable = scaled(rolling.MaxSurge, wanted, 0), scaled(rolling.MaxUnavailable, wanted, 1)
	if surge == 0 && unavailable == 0 {
		unavailable = 1 // a percentage of no nodes
	}
	return surge, unavailable
}

func scaled(value *intstr.IntOrString, of, unset int) int {
	if value == nil {
		return unset
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(value, of, true)
	if err != nil || n < 0 {
		return unset
	}
	return n
}

// update replaces outdated Pods as far as the strategy allows.
func (d *decider) update() {
	switch {
	case d.set.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType:
	case d.surge > 0:
		d.updateSurging()
	default:
		d.updateInPlace()
	}
}

// census is how the nodes of a set stand before its update in place goes on.
type census struct {
	// The nodes with an outdated Pod that is not Ready, Ready and not available for
	// long enough, or available.
	broken, fresh, healthy []*place
	// moving are nodes without an available Pod whose renewal is under way; away are
	// nodes that want no Pod now (not being ready, for one) and have a silent old one.
	// That is left alone, since it would not come back, but it counts as down.
	moving, away []*place
}

func (d *decider) census() (c census) {
	for _, p := range d.wanted {
		switch {
		case p.old != nil && !coverage.Ready(p.old):
			c.broken = append(c.broken, p)
		case p.old != nil && !d.available(p.old):
			c.fresh = append(c.fresh, p)
		case p.old != nil:
			c.healthy = append(c.healthy, p)
		case p.new == nil || !d.available(p.new):
			c.moving = append(c.moving, p)
		}
	}
	for _, p := range d.staying {
		switch {
		case p.old != nil && d.available(p.old), p.new != nil && d.available(p.new):
		case p.old != nil:
			c.away = append(c.away, p)
		default:
			c.moving = append(c.moving, p)
		}
	}
	return c
}

// updateInPlace deletes outdated Pods within maxUnavailable. Two things are counted
// against it. down: nodes without an available Pod, whatever the cause; a Pod that
// is Ready is only deleted if that leaves down within the budget. moving: those of
// them that are already being renewed; a Pod that is broken anyway is only deleted
// if that leaves moving within the budget, so that one bad dependency does not
// restart the fleet at once.
func (d *decider) updateInPlace() {
	c := d.census()
	moving := len(c.moving)
	down := moving + len(c.away) + len(c.broken) + len(c.fresh)
	waiting := len(c.broken) + len(c.fresh) + len(c.healthy)
	for _, p := range c.broken {
		if moving < d.unavailable {
			d.replace(p, true)
			moving, waiting = moving+1, waiting-1
		}
	}
	if down <= d.unavailable {
		for _, p := range c.fresh {
			d.replace(p, false)
			waiting--
		}
	}
	for _, p := range c.healthy {
		if down < d.unavailable {
			d.replace(p, false)
			down, waiting = down+1, waiting-1
		}
	}
	if waiting > 0 {
		d.hold(reason.RolloutHeld, down, d.unavailable, slices.Concat(c.moving, c.away, c.broken, c.fresh))
	}
}

// replace deletes an outdated Pod; its successor is created when it is gone.
func (d *decider) replace(p *place, broken bool) {
	why := reason.Reason{Code: reason.OutdatedPod, Object: p.Node.Name}
	if broken {
		why.Code = reason.OutdatedBroken
	}
	d.plan.Delete = append(d.plan.Delete, Deletion{Pod: p.old, Unready: broken, Reason: why})
}

// updateSurging creates the new Pod beside the old one on at most maxSurge nodes
// at a time, and deletes the old one once the new is available, or when it is
// broken and its successor exists. Every node with more than one Pod counts, even
// where one is only still stopping.
func (d *decider) updateSurging() {
	var broken, healthy, holders []*place
	for _, p := range slices.Concat(d.wanted, d.staying) {
		if len(p.Pods) > 1 {
			holders = append(holders, p)
		}
	}
	for _, p := range d.wanted {
		switch {
		case p.new != nil && p.old != nil && !coverage.Ready(p.old):
			d.replace(p, true)
		case p.new != nil && p.old != nil && d.available(p.new):
			d.replace(p, false)
		case p.new != nil || len(p.Pods) == 0:
		case p.old != nil && coverage.Ready(p.old):
			healthy = append(healthy, p)
		default:
			broken = append(broken, p)
		}
	}
	extra, waiting := len(holders), 0
	for _, p := range append(broken, healthy...) {
		why := reason.Reason{Code: reason.OutdatedPod, Object: p.Node.Name}
		if len(p.Pods) == 1 && extra < d.surge && d.create(p, why) {
			extra++
			continue
		}
		waiting++
	}
	if waiting > 0 {
		d.hold(reason.SurgeHeld, extra, d.surge, holders)
	}
	d.warnHostPorts()
}

// warnHostPorts says that a surge cannot end while old and new want one port.
func (d *decider) warnHostPorts() {
	for _, container := range d.set.Spec.Template.Spec.Containers {
		for _, port := range container.Ports {
			if port.HostPort != 0 {
				d.plan.Reasons = append(d.plan.Reasons, reason.Reason{Code: reason.HostPortSurge, Object: container.Name})
				return
			}
		}
	}
}
