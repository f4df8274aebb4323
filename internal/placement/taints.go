package placement

import (
	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/reason"
)

// untolerated is the first of the taints with one of the effects that the Pod
// does not tolerate; nil if there is none.
func untolerated(pod *v1.Pod, taints []v1.Taint, effects ...v1.TaintEffect) *v1.Taint {
	for i := range taints {
		for _, effect := range effects {
			if taints[i].Effect == effect && !coverage.Tolerates(pod.Spec.Tolerations, &taints[i]) {
				return &taints[i]
			}
		}
	}
	return nil
}

func fitsTaints(r *Request, room *NodeRoom) []reason.Reason {
	taint := untolerated(r.pod, room.node.Spec.Taints, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute)
	if taint == nil {
		return nil
	}
	return []reason.Reason{{Code: reason.UntoleratedTaint, Object: taint.ToString()}}
}

// cordoned is the taint whose toleration also lets a Pod onto a node that is
// marked unschedulable.
var cordoned = v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}

func fitsUnschedulable(r *Request, room *NodeRoom) []reason.Reason {
	if !room.node.Spec.Unschedulable || coverage.Tolerates(r.pod.Spec.Tolerations, &cordoned) {
		return nil
	}
	return []reason.Reason{{Code: reason.Unschedulable, Object: room.name}}
}
