package coverage

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Column is a snapshot of one daemon's column, to decide on while the matrix
// goes on changing. Its objects are shared and must not be changed.
type Column struct {
	Set *appsv1.DaemonSet
	// Cells are the daemon's cells on all nodes, by pool and node name.
	Cells []Cell
	// Adrift are the daemon's Pods whose node is not in the matrix, by node and name.
	Adrift []*v1.Pod
	Counts Counts
}

// Cell is a snapshot of one daemon on one node.
type Cell struct {
	Node *v1.Node
	Pool string
	Verdict
	// Pods are the daemon's Pods here; the first stands for the node (see Pod).
	Pods []*v1.Pod
}

// Pod is the Pod that stands for the node and is kept where there are several:
// one that is not being deleted before one that is, a bound one before an unbound,
// the oldest first. Nil where there is none.
func (c Cell) Pod() *v1.Pod {
	if len(c.Pods) == 0 {
		return nil
	}
	return c.Pods[0]
}

// Column is a snapshot of a daemon's column; false if the matrix has no such set.
func (m *Matrix) Column(uid types.UID) (Column, bool) {
	c := m.columns[uid]
	if c == nil || c.set == nil {
		return Column{}, false
	}
	snapshot := Column{Set: c.set, Counts: c.counts, Cells: make([]Cell, 0, len(m.rows))}
	for _, r := range m.sorted() {
		of := c.cells[r.node.Name]
		snapshot.Cells = append(snapshot.Cells, Cell{Node: r.node, Pool: r.pool, Verdict: of.verdict, Pods: of.pods})
	}
	for _, name := range c.adrift() {
		snapshot.Adrift = append(snapshot.Adrift, c.cells[name].pods...)
	}
	return snapshot, true
}

// Daemons are the UIDs of all sets in the matrix, by namespace and name.
func (m *Matrix) Daemons() []types.UID {
	var uids []types.UID
	for uid, c := range m.columns {
		if c.set != nil {
			uids = append(uids, uid)
		}
	}
	slices.SortFunc(uids, func(a, b types.UID) int {
		return compareSets(m.columns[a].set, m.columns[b].set)
	})
	return uids
}

func (c *column) adrift() []string {
	if len(c.cells) == c.counts.Nodes {
		return nil
	}
	var names []string
	for name, cell := range c.cells {
		if !cell.known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// judgeCell works out the verdict of the cell on a node; r is nil when the node
// is not, or no longer, in the matrix. It says whether a Decide could now differ.
func (c *column) judgeCell(nodeName string, r *row) bool {
	before := c.cells[nodeName]
	var known bool
	var verdict Verdict
	if r != nil && c.set != nil {
		known, verdict = true, c.judge.Verdict(r.node)
	}
	changed := before == nil || before.known != known ||
		before.verdict.Wanted != verdict.Wanted || before.verdict.MayStay != verdict.MayStay
	c.change(nodeName, func(cell *cell) { cell.known, cell.verdict = known, verdict })
	return changed && c.set != nil
}

// change changes one cell and moves the counts by the difference.
func (c *column) change(nodeName string, by func(*cell)) {
	of := c.cells[nodeName]
	if of == nil {
		of = &cell{}
		c.cells[nodeName] = of
	}
	c.counts.add(of, -1)
	by(of)
	c.counts.add(of, +1)
	if !of.known && len(of.pods) == 0 {
		delete(c.cells, nodeName)
	}
}

// add counts a cell in (sign 1) or out (sign -1).
func (n *Counts) add(c *cell, sign int) {
	if !c.known {
		return
	}
	n.Nodes += sign
	switch {
	case c.verdict.Wanted:
		n.Wanted += sign
		if len(c.pods) > 0 {
			n.Current += sign
			if Ready(c.pods[0]) {
				n.Ready += sign
			}
		}
	case len(c.pods) > 0:
		n.Misscheduled += sign
	}
}
