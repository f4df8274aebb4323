package nodelife

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/reason"
)

const (
	// Quarantine is how long a node must be gone before its Pods are: a Pod can
	// be heard of before its node is, and a node may be registered anew.
	Quarantine = 40 * time.Second
	// MostEnded is how many ended Pods are kept.
	MostEnded = 12500
)

// Collection is the verdict on a Pod that perhaps nobody will end.
type Collection struct {
	// Collect: mark the Pod as failed unless it has ended, then delete it at once.
	Collect bool
	// Disrupted: say on the Pod that it did not end by its own doing.
	Disrupted bool
	// NotBefore is when to decide again, where it is too early; zero: no need.
	NotBefore time.Time
	// Reason says why it is collected, now or later.
	Reason reason.Reason
}

// Collect decides on one Pod. node is the one it is bound to; nil if that does
// not exist, then goneSince is since when this is known.
func Collect(pod *v1.Pod, node *v1.Node, goneSince, now time.Time) Collection {
	leaving := pod.DeletionTimestamp != nil
	switch {
	case pod.Spec.NodeName == "" && leaving:
		return Collection{Collect: true, Reason: reason.Reason{Code: reason.TerminatingUnbound}}
	case pod.Spec.NodeName == "":
		return Collection{}
	case node == nil:
		verdict := Collection{Reason: reason.Reason{Code: reason.DeletionByPodGC, Object: pod.Spec.NodeName}}
		if due := goneSince.Add(Quarantine); now.Before(due) {
			verdict.NotBefore = due
			return verdict
		}
		verdict.Collect, verdict.Disrupted = true, true
		return verdict
	case leaving && OutOfService(node):
		return Collection{Collect: true, Reason: reason.Reason{Code: reason.TerminatingOutOfService, Object: node.Name}}
	}
	return Collection{}
}

// OutOfService says that somebody has vouched for the node being off, and that
// it is not Ready: nothing of what ran there runs any more.
func OutOfService(node *v1.Node) bool {
	ready := condition(node, v1.NodeReady)
	return (ready == nil || ready.Status != v1.ConditionTrue) &&
		slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.Key == v1.TaintNodeOutOfService })
}

// Ended says that the Pod has run to its end.
func Ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// Excess picks the ended Pods to delete so that no more than most are kept: the
// oldest. The order of pods does not matter and is left as it is.
func Excess(pods []*v1.Pod, most int) ([]*v1.Pod, reason.Reason) {
	var ended []*v1.Pod
	for _, pod := range pods {
		if Ended(pod) && pod.DeletionTimestamp == nil {
			ended = append(ended, pod)
		}
	}
	if len(ended) <= most {
		return nil, reason.Reason{}
	}
	slices.SortFunc(ended, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return ended[:len(ended)-most], reason.Reason{Code: reason.TooManyEnded, Count: len(ended), Asked: strconv.Itoa(most)}
}
