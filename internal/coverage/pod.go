package coverage

import (
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OwnerOf is the UID of the DaemonSet that controls the Pod, by its controller
// owner reference alone; empty where none does. Labels never make an owner.
func OwnerOf(pod *v1.Pod) types.UID {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "DaemonSet" {
		return ""
	}
	return owner.UID
}

// TargetOf is the name of the node a Pod is on or is meant for: the one it is
// bound to, else the one its metadata.name affinity names. Empty where neither is.
func TargetOf(pod *v1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == v1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// Live says that the Pod is neither being deleted nor at its end.
func Live(pod *v1.Pod) bool { return pod.DeletionTimestamp == nil && !Ended(pod) }

// Ended says that the Pod has failed or succeeded and will not run again.
func Ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded
}

// Ready says that the Pod serves: its Ready condition is true.
func Ready(pod *v1.Pod) bool {
	condition := podCondition(pod, v1.PodReady)
	return condition != nil && condition.Status == v1.ConditionTrue
}

// AvailableAt is when a Pod that is Ready has been so for minReady; false for a
// Pod that is not Ready. The time may lie in the past.
func AvailableAt(pod *v1.Pod, minReady time.Duration) (time.Time, bool) {
	if !Ready(pod) {
		return time.Time{}, false
	}
	if minReady == 0 {
		return time.Time{}, true
	}
	return podCondition(pod, v1.PodReady).LastTransitionTime.Add(minReady), true
}

// RevisionOf is the hash of the template the Pod was made from.
func RevisionOf(pod *v1.Pod) string { return pod.Labels["controller-revision-hash"] }

func podCondition(pod *v1.Pod, kind v1.PodConditionType) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// inOrder sorts the Pods of a cell so that the first is the one that stands for
// the node and stays: not being deleted, bound, oldest. Of those of one second (the
// API's clock is no finer) a Ready one comes first; the name settles ties.
func inOrder(pods []*v1.Pod) {
	sort.Slice(pods, func(i, j int) bool {
		a, b := pods[i], pods[j]
		if d, e := a.DeletionTimestamp != nil, b.DeletionTimestamp != nil; d != e {
			return e
		}
		if d, e := a.Spec.NodeName != "", b.Spec.NodeName != ""; d != e {
			return d
		}
		if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
			return a.CreationTimestamp.Before(&b.CreationTimestamp)
		}
		if d, e := Ready(a), Ready(b); d != e {
			return d
		}
		if a.Name != b.Name {
			return a.Name < b.Name
		}
		return a.UID < b.UID
	})
}
