package placement

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"muster.dev/muster/internal/reason"
)

// Request is a Pod made ready to be held against many nodes of one ledger: what
// it asks is worked out once, and what it needs to know of the rest of the
// cluster is counted at most once. It is good until the ledger changes.
type Request struct {
	pod         *v1.Pod
	ledger      *Ledger
	waits       []reason.Reason
	wants       amounts
	wantedNames []v1.ResourceName
	ports       []hostPort
	affinity    nodeaffinity.RequiredNodeAffinity

	attracts, repels    []term
	attracted, repelled tally
	first               answer

	spread        []constraint
	spreadCounted bool
}

// answer is a question that is asked at most once.
type answer int

const (
	unknown answer = iota
	yes
	no
)

// NewRequest makes a Pod ready to be held against the rooms of a ledger.
func NewRequest(pod *v1.Pod, ledger *Ledger) *Request {
	wants := amountsOf(Requests(pod))
	return &Request{
		pod: pod, ledger: ledger, waits: waits(pod),
		wants: wants, wantedNames: wants.names(), ports: hostPorts(pod),
		affinity:  nodeaffinity.GetRequiredNodeAffinity(pod),
		attracts:  affinityTerms(pod),
		repels:    antiAffinityTerms(pod),
		attracted: tally{}, repelled: tally{},
		spread: constraints(pod, v1.DoNotSchedule),
	}
}

// filters in the order in which the scheduler asks; the first that says no is
// the one that is told of a node.
var filters = []func(*Request, *NodeRoom) []reason.Reason{
	fitsUnschedulable, fitsNodeName, fitsTaints, fitsSelector, fitsPorts, fitsResources,
	fitsSpread, fitsAffinity, fitsAntiAffinity, fitsExistingPods,
}

// Fits says every reason why the Pod does not fit on the node, with numbers;
// none means that it fits. A node the ledger does not know fits nothing.
func Fits(pod *v1.Pod, ledger *Ledger, node string) []reason.Reason {
	request := NewRequest(pod, ledger)
	reasons := request.waits
	room := ledger.rooms[node]
	if room == nil || room.node == nil {
		return append(reasons, reason.Reason{Code: reason.NodeUnknown, Object: node})
	}
	for _, filter := range filters {
		reasons = append(reasons, filter(request, room)...)
	}
	return reasons
}

// refused is what the first filter to say no has to say.
func (r *Request) refused(room *NodeRoom) []reason.Reason {
	for _, filter := range filters {
		if reasons := filter(r, room); len(reasons) > 0 {
			return reasons
		}
	}
	return nil
}

// tally counts Pods by topology domain and term, each domain when first asked for.
type tally map[tallied]int

type tallied struct {
	key, value string
	term       int
}

// in counts the Pods in the domain, other than the request's own, that match.
func (t tally) in(r *Request, key, value string, term int, match func(*v1.Pod) bool) int {
	domain := tallied{key: key, value: value, term: term}
	count, known := t[domain]
	if known {
		return count
	}
	for _, room := range r.ledger.domain(key, value) {
		for name, held := range room.pods {
			if name != keyOf(r.pod) && match(held.pod) {
				count++
			}
		}
	}
	t[domain] = count
	return count
}
