package nodelife

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// node is a node whose conditions are as given: Ready first, then those that
// are true.
func node(ready v1.ConditionStatus, pressures ...v1.NodeConditionType) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(start)}}
	if ready != "" {
		n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: v1.NodeReady, Status: ready, Reason: "KubeletReady", LastHeartbeatTime: metav1.NewTime(start)})
	}
	for _, pressure := range pressures {
		n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: pressure, Status: v1.ConditionTrue})
	}
	return n
}

func withTaints(n *v1.Node, taints ...v1.Taint) *v1.Node {
	n.Spec.Taints = taints
	return n
}

func noSchedule(key string) v1.Taint { return v1.Taint{Key: key, Effect: v1.TaintEffectNoSchedule} }
func noExecute(key string) v1.Taint  { return v1.Taint{Key: key, Effect: v1.TaintEffectNoExecute} }

func lease(renewed time.Time, seconds int32) *coordinationv1.Lease {
	micro := metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &micro, LeaseDurationSeconds: &seconds}}
}
