package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/reason"
)

// Decision is where a Pod goes, or why nowhere.
type Decision struct {
	// Node is the node chosen; empty if there is none.
	Node string
	// Waits are the reasons in the Pod itself; no node was looked at.
	Waits []reason.Reason
	// Unfit says on how many nodes the Pod failed on what, as it is told.
	Unfit []reason.Reason
	// Nodes is how many nodes there are.
	Nodes int
}

// Placed says that a node was chosen.
func (d Decision) Placed() bool { return d.Node != "" }

// Decide picks the node with the best score among those the Pod fits on. The
// choice depends on the ledger and the Pod alone.
func Decide(pod *v1.Pod, ledger *Ledger) Decision {
	request := NewRequest(pod, ledger)
	decision := Decision{Nodes: ledger.nodes, Waits: request.waits}
	if len(request.waits) > 0 {
		return decision
	}
	var fitting []*NodeRoom
	unfit := histogram{}
	candidates, elsewhere := request.candidates()
	if elsewhere > 0 {
		unfit[unfitness{code: reason.NodeSelector, object: describeSelector(pod)}] = elsewhere
	}
	for _, room := range candidates {
		if room.node == nil {
			continue
		}
		reasons := request.refused(room)
		if len(reasons) == 0 {
			fitting = append(fitting, room)
		}
		unfit.add(reasons)
	}
	decision.Unfit = unfit.sorted()
	if len(fitting) > 0 {
		decision.Node = request.best(fitting).name
	}
	return decision
}

// candidates are the rooms to look at, by name, and how many nodes besides are
// ruled out because the Pod is confined to others.
func (r *Request) candidates() (rooms map[string]*NodeRoom, elsewhere int) {
	only, confined := pinned(r.pod)
	if !confined {
		return r.ledger.rooms, 0
	}
	rooms = map[string]*NodeRoom{}
	for name := range only {
		if room := r.ledger.rooms[name]; room != nil && room.node != nil {
			rooms[name] = room
		}
	}
	return rooms, r.ledger.nodes - len(rooms)
}

// Message says a decision without a node as Kubernetes' scheduler would.
func (d Decision) Message() string {
	if d.Nodes == 0 && len(d.Waits) == 0 {
		return "no nodes available to schedule pods"
	}
	var parts []string
	for _, wait := range d.Waits {
		parts = append(parts, wait.Text()+": "+wait.Remedy())
	}
	for _, unfit := range d.Unfit {
		parts = append(parts, counted(unfit))
	}
	return fmt.Sprintf("0/%d nodes are available: %s.", d.Nodes, strings.Join(parts, ", "))
}

func counted(r reason.Reason) string { return fmt.Sprintf("%d %s", r.Count, words(r)) }

// words says a reason as the scheduler says it of several nodes. A taint is
// shown as {key: value}, without its effect.
func words(r reason.Reason) string {
	if r.Code != reason.UntoleratedTaint {
		return r.Text()
	}
	taint := r.Object
	if end := strings.LastIndex(taint, ":"); end >= 0 {
		taint = taint[:end]
	}
	key, value, _ := strings.Cut(taint, "=")
	return fmt.Sprintf("node(s) had untolerated taint {%s: %s}", key, value)
}

// histogram counts the nodes per reason.
type histogram map[unfitness]int

type unfitness struct {
	code          reason.Code
	object, asked string
}

func (h histogram) add(reasons []reason.Reason) {
	for _, r := range reasons {
		h[unfitness{code: r.Code, object: r.Object, asked: r.Asked}]++
	}
}

// sorted is one reason for each thing that is said, in the scheduler's order:
// that of the sentences with their counts.
func (h histogram) sorted() []reason.Reason {
	said := map[string]reason.Reason{}
	for what, count := range h {
		r := reason.Reason{Code: what.code, Object: what.object, Asked: what.asked, Count: count}
		if other, twice := said[words(r)]; twice {
			r.Object, r.Count = min(r.Object, other.Object), r.Count+other.Count
		}
		said[words(r)] = r
	}
	return slices.SortedFunc(maps.Values(said), func(a, b reason.Reason) int { return strings.Compare(counted(a), counted(b)) })
}
