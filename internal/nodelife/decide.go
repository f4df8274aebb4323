package nodelife

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/reason"
)

// Transition is what is to change about a node. A zero value changes nothing.
type Transition struct {
	// Conditions are all of the node's conditions as they shall be; nil: as they are.
	Conditions []v1.NodeCondition
	// Taints are all of the node's taints as they shall be, if Retaint is set.
	Taints  []v1.Taint
	Retaint bool
	// PodsNotReady: nobody vouches for the readiness of the node's Pods.
	PodsNotReady bool
	// Next is when to decide again should nothing be heard; zero: when something is.
	Next time.Time
	// Reasons say why the node is lost; empty while it is not.
	Reasons []reason.Reason
}

// Lost says that the node has been silent for longer than agreed.
func (t Transition) Lost() bool { return len(t.Reasons) > 0 }

// Decide says what becomes of a node, given the last sign of life.
func Decide(node *v1.Node, beat Heartbeat, now time.Time) Transition {
	var next Transition
	conditions := node.Status.Conditions
	if now.Before(beat.deadline()) {
		next.Next = beat.deadline()
	} else {
		next.PodsNotReady = true
		next.Reasons = []reason.Reason{silence(node, beat, now)}
		var changed bool
		if conditions, changed = unknown(node, now); changed {
			next.Conditions = conditions
		}
	}
	next.Taints, next.Retaint = taints(node, conditions, now)
	return next
}

func silence(node *v1.Node, beat Heartbeat, now time.Time) reason.Reason {
	why := reason.Reason{Code: reason.NodeStatusUnknown, Object: node.Name, Asked: now.Sub(beat.Seen).Round(time.Second).String()}
	if ready := condition(node, v1.NodeReady); ready == nil || ready.Reason == string(reason.NodeStatusNeverUpdated) {
		why.Code = reason.NodeStatusNeverUpdated
	}
	return why
}

// spoken are the conditions that only the node itself can know.
var spoken = []v1.NodeConditionType{v1.NodeReady, v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure}

// unknown is the node's conditions when it has fallen silent, and whether that
// changes any. Conditions that others set, NetworkUnavailable among them, stay.
func unknown(node *v1.Node, now time.Time) ([]v1.NodeCondition, bool) {
	conditions, changed := slices.Clone(node.Status.Conditions), false
	for _, kind := range spoken {
		at := slices.IndexFunc(conditions, func(c v1.NodeCondition) bool { return c.Type == kind })
		if at < 0 {
			conditions = append(conditions, v1.NodeCondition{Type: kind, LastHeartbeatTime: node.CreationTimestamp})
			at = len(conditions) - 1
		}
		c := &conditions[at]
		if c.Status == v1.ConditionUnknown {
			continue
		}
		why := reason.Reason{Code: reason.NodeStatusUnknown}
		if c.Status == "" {
			why.Code = reason.NodeStatusNeverUpdated
		}
		c.Status, c.Reason, c.Message = v1.ConditionUnknown, string(why.Code), why.Text()
		c.LastTransitionTime = metav1.NewTime(now)
		changed = true
	}
	return conditions, changed
}
