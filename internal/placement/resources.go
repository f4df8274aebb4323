package placement

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"muster.dev/muster/internal/reason"
)

// amounts are quantities of resources as whole numbers, so that sums over many
// Pods stay exact and cheap: thousandths of a CPU, units of everything else.
type amounts map[v1.ResourceName]int64

// Requests is what a Pod asks of a node: the largest of what each init step
// needs together with the sidecars before it and what sidecars and containers
// need together, or what the Pod itself declares; plus the overhead. A resize
// in progress counts with the larger of both sizes.
func Requests(pod *v1.Pod) v1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})
}

func amountsOf(list v1.ResourceList) amounts {
	result := make(amounts, len(list))
	for name, quantity := range list {
		result[name] = amountOf(name, quantity)
	}
	return result
}

func amountOf(name v1.ResourceName, quantity resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return quantity.MilliValue()
	}
	return quantity.Value()
}

// add adds other, times sign, and drops what has come down to nothing.
func (a amounts) add(other amounts, sign int64) {
	for name, amount := range other {
		if a[name] += sign * amount; a[name] == 0 {
			delete(a, name)
		}
	}
}

// quantity says an amount in Kubernetes' notation.
func quantity(name v1.ResourceName, amount int64) string {
	switch name {
	case v1.ResourceCPU:
		return resource.NewMilliQuantity(amount, resource.DecimalSI).String()
	case v1.ResourceMemory, v1.ResourceEphemeralStorage:
		return resource.NewQuantity(amount, resource.BinarySI).String()
	}
	return resource.NewQuantity(amount, resource.DecimalSI).String()
}

// resourceOrder is the order in which shortages are told: the number of Pods
// aside, first what every node has, then the rest by name.
var resourceOrder = map[v1.ResourceName]int{
	v1.ResourceCPU: -3, v1.ResourceMemory: -2, v1.ResourceEphemeralStorage: -1,
}

func (a amounts) names() []v1.ResourceName {
	names := make([]v1.ResourceName, 0, len(a))
	for name := range a {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y v1.ResourceName) int {
		if order := resourceOrder[x] - resourceOrder[y]; order != 0 {
			return order
		}
		if x < y {
			return -1
		}
		return 1
	})
	return names
}

// fitsResources: room for one more Pod, and for all it asks. A resource the Pod
// does not ask for is never short, even on a node that is overcommitted in it.
func fitsResources(r *Request, room *NodeRoom) []reason.Reason {
	var short []reason.Reason
	if limit := room.capacity[v1.ResourcePods]; int64(len(room.pods)) >= limit {
		short = append(short, reason.Reason{
			Code: reason.TooManyPods, Asked: "1", Free: quantity(v1.ResourcePods, limit-int64(len(room.pods))),
		})
	}
	for _, name := range r.wantedNames {
		wanted, free := r.wants[name], room.capacity[name]-room.requested[name]
		if wanted > free {
			short = append(short, reason.Reason{
				Code: reason.InsufficientResource, Object: string(name),
				Asked: quantity(name, wanted), Free: quantity(name, free),
			})
		}
	}
	return short
}
