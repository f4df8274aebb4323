package nodelife

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// standard are the taints that follow from conditions: a condition, the status
// of it that taints, the taint's key. All of them keep new Pods away.
var standard = []struct {
	condition v1.NodeConditionType
	status    v1.ConditionStatus
	key       string
}{
	{v1.NodeReady, v1.ConditionFalse, v1.TaintNodeNotReady},
	{v1.NodeReady, "", v1.TaintNodeNotReady}, // it has not said anything yet
	{v1.NodeReady, v1.ConditionUnknown, v1.TaintNodeUnreachable},
	{v1.NodeMemoryPressure, v1.ConditionTrue, v1.TaintNodeMemoryPressure},
	{v1.NodeDiskPressure, v1.ConditionTrue, v1.TaintNodeDiskPressure},
	{v1.NodePIDPressure, v1.ConditionTrue, v1.TaintNodePIDPressure},
	{v1.NodeNetworkUnavailable, v1.ConditionTrue, v1.TaintNodeNetworkUnavailable},
}

// owned says that a taint is this package's to add and remove.
func owned(taint *v1.Taint) bool {
	switch taint.Key {
	case v1.TaintNodeNotReady, v1.TaintNodeUnreachable:
		return taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
	case v1.TaintNodeMemoryPressure, v1.TaintNodeDiskPressure, v1.TaintNodePIDPressure,
		v1.TaintNodeNetworkUnavailable, v1.TaintNodeUnschedulable:
		return taint.Effect == v1.TaintEffectNoSchedule
	}
	return false
}

// wanted are the taints a node shall have by its conditions and its cordon.
func wanted(node *v1.Node, conditions []v1.NodeCondition) []v1.Taint {
	status := map[v1.NodeConditionType]v1.ConditionStatus{}
	for _, c := range conditions {
		status[c.Type] = c.Status
	}
	var result []v1.Taint
	for _, s := range standard {
		if status[s.condition] == s.status {
			result = append(result, v1.Taint{Key: s.key, Effect: v1.TaintEffectNoSchedule})
		}
	}
	switch status[v1.NodeReady] {
	case v1.ConditionFalse:
		result = append(result, v1.Taint{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoExecute})
	case v1.ConditionUnknown:
		result = append(result, v1.Taint{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute})
	}
	if node.Spec.Unschedulable {
		result = append(result, v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
	}
	return result
}

// taints are the node's taints as they shall be, and whether that changes any.
// Those that stay keep their place and the time they were added.
func taints(node *v1.Node, conditions []v1.NodeCondition, now time.Time) (result []v1.Taint, changed bool) {
	missing := wanted(node, conditions)
	for _, taint := range node.Spec.Taints {
		if owned(&taint) {
			at := indexOf(missing, &taint)
			if at < 0 {
				changed = true
				continue
			}
			missing = append(missing[:at], missing[at+1:]...)
		}
		result = append(result, taint)
	}
	added := metav1.NewTime(now)
	for _, taint := range missing {
		taint.TimeAdded = &added
		result, changed = append(result, taint), true
	}
	return result, changed
}

func indexOf(taints []v1.Taint, taint *v1.Taint) int {
	for i := range taints {
		if taints[i].MatchTaint(taint) {
			return i
		}
	}
	return -1
}
