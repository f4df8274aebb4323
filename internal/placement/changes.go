package placement

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// MakesRoom says that a node changed in something that filters look at, so that
// Pods that did not fit may fit now.
func MakesRoom(old, node *v1.Node) bool {
	return old.UID != node.UID ||
		old.Spec.Unschedulable != node.Spec.Unschedulable ||
		!maps.Equal(old.Labels, node.Labels) ||
		!equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) ||
		!equality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable)
}

// ChangesRoom says that a Pod changed what it holds on its node or how others
// see it there; old is nil where the Pod is new. It is false for a Pod without
// a node.
func ChangesRoom(old, pod *v1.Pod) bool {
	switch {
	case pod.Spec.NodeName == "":
		return false
	case old == nil || old.UID != pod.UID || old.Spec.NodeName != pod.Spec.NodeName:
		return true
	}
	return ended(old) != ended(pod) ||
		(old.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil) ||
		!maps.Equal(old.Labels, pod.Labels) ||
		!equality.Semantic.DeepEqual(Requests(old), Requests(pod))
}

// LooksAround says that whether the Pod fits on a node depends on other nodes
// and their Pods too, so that news from anywhere may change the answer.
func LooksAround(pod *v1.Pod) bool {
	affinity := pod.Spec.Affinity
	return len(pod.Spec.TopologySpreadConstraints) > 0 ||
		affinity != nil && (affinity.PodAffinity != nil || affinity.PodAntiAffinity != nil)
}

// ConfinedElsewhere says that the Pod's affinity names the only nodes it may use,
// and this is none of them: the quick half of asking whether it fits there.
func ConfinedElsewhere(pod *v1.Pod, node string) bool {
	only, confined := pinned(pod)
	return confined && !only[node]
}
