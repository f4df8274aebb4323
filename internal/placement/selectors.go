package placement

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/reason"
)

func fitsNodeName(r *Request, room *NodeRoom) []reason.Reason {
	if wanted := r.pod.Spec.NodeName; wanted != "" && wanted != room.name {
		return []reason.Reason{{Code: reason.NodeName, Object: wanted}}
	}
	return nil
}

// fitsSelector: nodeSelector and required node affinity. An affinity that
// cannot be read fits nowhere.
func fitsSelector(r *Request, room *NodeRoom) []reason.Reason {
	if fits, err := r.affinity.Match(room.node); err != nil || !fits {
		return []reason.Reason{{Code: reason.NodeSelector, Object: describeSelector(r.pod)}}
	}
	return nil
}

// describeSelector says which part of the Pod's spec chooses nodes.
func describeSelector(pod *v1.Pod) string {
	if len(pod.Spec.NodeSelector) > 0 {
		return "spec.nodeSelector " + metav1.FormatLabelSelector(metav1.SetAsLabelSelector(pod.Spec.NodeSelector))
	}
	return "spec.affinity.nodeAffinity"
}

// pinned are the node names to which the Pod's required affinity confines it by
// metadata.name, as a daemon's Pods are; ok is false where it does not. Looking
// at these alone spares the rest of a large fleet.
func pinned(pod *v1.Pod) (names map[string]bool, ok bool) {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil ||
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil, false
	}
	names = map[string]bool{}
	for _, alternative := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		confined := false
		for _, field := range alternative.MatchFields {
			if field.Key != metav1.ObjectNameField || field.Operator != v1.NodeSelectorOpIn {
				continue
			}
			confined = true
			for _, name := range field.Values {
				names[name] = true
			}
		}
		if !confined {
			return nil, false
		}
	}
	return names, true
}
