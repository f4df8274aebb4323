package placement

import (
	"fmt"
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

// Gated says that somebody else must open a gate before the Pod is looked at.
func (d Decision) Gated() bool {
	return slices.ContainsFunc(d.Waits, func(r reason.Reason) bool { return r.Code == reason.SchedulingGated })
}

// Decide picks the node with the best score among those the Pod fits on. The
// choice depends on the ledger and the Pod alone.
func Decide(pod *v1.Pod, ledger *Ledger) Decision {
	request := NewRequest(pod, ledger)
	nodes := ledger.Nodes()
	decision := Decision{Nodes: len(nodes), Waits: request.waits}
	if len(request.waits) > 0 {
		return decision
	}
	only, isPinned := pinned(pod)
	var fitting []*NodeRoom
	unfit := histogram{}
	for _, name := range nodes {
		room := ledger.rooms[name]
		if isPinned && !only[name] {
			unfit.add(reason.Reason{Code: reason.NodeSelector, Object: describeSelector(pod)})
			continue
		}
		reasons := request.refused(room)
		if len(reasons) == 0 {
			fitting = append(fitting, room)
		}
		unfit.add(reasons...)
	}
	decision.Unfit = unfit.sorted()
	if len(fitting) > 0 {
		decision.Node = request.best(fitting).name
	}
	return decision
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

// histogram counts reasons by what is said of them.
type histogram map[string]reason.Reason

func (h histogram) add(reasons ...reason.Reason) {
	for _, r := range reasons {
		said := words(r)
		entry, known := h[said]
		if !known {
			entry = reason.Reason{Code: r.Code, Object: r.Object, Asked: r.Asked}
		}
		entry.Count++
		h[said] = entry
	}
}

// sorted in the scheduler's order, which is that of the sentences with their counts.
func (h histogram) sorted() []reason.Reason {
	all := make([]reason.Reason, 0, len(h))
	for _, r := range h {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b reason.Reason) int { return strings.Compare(counted(a), counted(b)) })
	return all
}
