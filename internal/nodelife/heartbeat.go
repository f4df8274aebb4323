package nodelife

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
)

const (
	// Grace is how long a node may be silent, where its lease does not say.
	Grace = 40 * time.Second
	// StartupGrace is how long a node may take to post its first status.
	StartupGrace = 60 * time.Second
	// oversleep is how much later than asked for a look may come. Who looks later
	// than that was held up itself, and cannot say that others were silent.
	oversleep = 5 * time.Second
)

// Heartbeat is the last sign of life of a node: when it was seen, by the clock
// of the one who looks. The times a node writes are only ever compared with one
// another, so that a clock that is wrong on the node does no harm.
type Heartbeat struct {
	// Seen is when the last new sign was seen; the first look counts as one.
	Seen time.Time

	looked   time.Time
	grace    time.Duration
	renewed  time.Time
	reported time.Time
}

// Observe is the heartbeat after a look at the node and its lease (nil if there
// is none). A renewed lease and a posted status are signs of life. A look that
// comes much too late counts as a first one.
func (h Heartbeat) Observe(node *v1.Node, lease *coordinationv1.Lease, now time.Time) Heartbeat {
	next := Heartbeat{Seen: h.Seen, looked: now, grace: Grace, renewed: h.renewed, reported: h.reported}
	if lease != nil && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(next.renewed) {
		next.renewed = lease.Spec.RenewTime.Time
	}
	if lease != nil && lease.Spec.LeaseDurationSeconds != nil {
		next.grace = time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	}
	ready := condition(node, v1.NodeReady)
	switch {
	case ready == nil:
		next.grace = StartupGrace
	case !ready.LastHeartbeatTime.Time.Equal(next.reported):
		next.reported = ready.LastHeartbeatTime.Time
	}
	overslept := now.After(h.looked.Add(h.grace + oversleep))
	if h.Seen.IsZero() || overslept && h.looked.Before(h.deadline()) || !next.renewed.Equal(h.renewed) || !next.reported.Equal(h.reported) {
		next.Seen = now
	}
	return next
}

// Excuse is the heartbeat once the server can be asked again, after it could
// not: meanwhile the node could give no sign of life either.
func (h Heartbeat) Excuse(now time.Time) Heartbeat {
	h.Seen, h.looked = now, now
	return h
}

// deadline is when a node that gives no further sign is lost.
func (h Heartbeat) deadline() time.Time { return h.Seen.Add(h.grace) }

func condition(node *v1.Node, kind v1.NodeConditionType) *v1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}
