package placement

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeRoom is one node with the Pods that hold room on it and the totals they
// take. It is kept up to date by its Ledger, one Pod at a time.
type NodeRoom struct {
	name string
	// node is nil while only Pods speak of it.
	node      *v1.Node
	capacity  amounts
	pods      map[types.NamespacedName]*holding
	requested amounts
	ports     map[hostPort]int
}

// holding is one Pod's hold on a node, with what it takes worked out once.
type holding struct {
	pod      *v1.Pod
	requests amounts
	ports    []hostPort
	// repels are the terms by which this Pod keeps others away.
	repels []term
}

func newRoom(name string) *NodeRoom {
	return &NodeRoom{
		name: name, pods: map[types.NamespacedName]*holding{},
		requested: amounts{}, ports: map[hostPort]int{},
	}
}

func newHolding(pod *v1.Pod) *holding {
	return &holding{
		pod: pod, requests: amountsOf(Requests(pod)), ports: hostPorts(pod),
		repels: antiAffinityTerms(pod),
	}
}

func (room *NodeRoom) setNode(node *v1.Node) {
	room.node = node
	room.capacity = amountsOf(node.Status.Allocatable)
}

func (room *NodeRoom) add(held *holding) {
	room.pods[keyOf(held.pod)] = held
	room.requested.add(held.requests, 1)
	for _, port := range held.ports {
		room.ports[port]++
	}
}

func (room *NodeRoom) remove(held *holding) {
	delete(room.pods, keyOf(held.pod))
	room.requested.add(held.requests, -1)
	for _, port := range held.ports {
		if room.ports[port]--; room.ports[port] == 0 {
			delete(room.ports, port)
		}
	}
}

// holderOf names the Pod that has the port; the first by name where several
// share it through different addresses.
func (room *NodeRoom) holderOf(port hostPort) string {
	holder := ""
	for key, held := range room.pods {
		for _, taken := range held.ports {
			if name := key.String(); taken == port && (holder == "" || name < holder) {
				holder = name
			}
		}
	}
	return holder
}

func keyOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
