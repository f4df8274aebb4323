package placement

import (
	v1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	"muster.dev/muster/internal/reason"
)

// Tolerates says whether one of the tolerations tolerates the taint.
var Tolerates = silently(schedulinghelper.TolerationsTolerateTaint)

// silently hands Kubernetes' own rule a logger that says nothing: a pure room
// does not log, and what the rule would log (a number that is none) is refused
// by the API server beforehand.
func silently[Logger any](rule func(Logger, []v1.Toleration, *v1.Taint, bool) bool) func([]v1.Toleration, *v1.Taint) bool {
	var silent Logger
	return func(tolerations []v1.Toleration, taint *v1.Taint) bool {
		return rule(silent, tolerations, taint, true)
	}
}

// untolerated is the first of the taints with one of the effects that the Pod
// does not tolerate; nil if there is none.
func untolerated(pod *v1.Pod, taints []v1.Taint, effects ...v1.TaintEffect) *v1.Taint {
	for i := range taints {
		for _, effect := range effects {
			if taints[i].Effect == effect && !Tolerates(pod.Spec.Tolerations, &taints[i]) {
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
	if !room.node.Spec.Unschedulable || Tolerates(r.pod.Spec.Tolerations, &cordoned) {
		return nil
	}
	return []reason.Reason{{Code: reason.Unschedulable, Object: room.name}}
}
