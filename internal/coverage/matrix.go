package coverage

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Matrix is the state of coverage: every node against every daemon. A change to
// a node touches its row, a change to a daemon its column, a change to a Pod one
// cell, and each column's counts move by the difference. It is not safe for use
// by several goroutines at once.
type Matrix struct {
	rows    map[types.UID]*row
	byName  map[string]*row
	columns map[types.UID]*column
	pods    map[types.UID]*v1.Pod
	order   []*row // by pool and name; nil when it must be sorted again
}

type row struct {
	node *v1.Node
	pool string
}

// column is one daemon. It exists without its set while only Pods of the set are
// known, so that the order in which news arrives does not matter.
type column struct {
	set    *appsv1.DaemonSet
	judge  Judge
	cells  map[string]*cell // by node name, which is what a Pod knows of its node
	counts Counts
}

// cell is one daemon on one node. Its slice of Pods is replaced, never changed,
// so that a snapshot may keep it.
type cell struct {
	known   bool // the node is in the matrix, and the verdict is about it
	verdict Verdict
	pods    []*v1.Pod
}

// Counts are a column's numbers, in the words of a DaemonSet's status.
type Counts struct {
	// Nodes is the number of all nodes, Wanted of those the daemon belongs on.
	Nodes, Wanted int
	// Current is the number of wanted nodes with at least one Pod, Ready of those
	// whose Pod is Ready, Misscheduled of nodes with a Pod that do not want one.
	Current, Ready, Misscheduled int
}

// New is an empty matrix.
func New() *Matrix {
	return &Matrix{
		rows:    map[types.UID]*row{},
		byName:  map[string]*row{},
		columns: map[types.UID]*column{},
		pods:    map[types.UID]*v1.Pod{},
	}
}

// SetNode adds a node or takes in its change, and returns the daemons whose
// verdict on it is another than before. A node whose name an older node had (its
// UID tells them apart) takes the older one's place.
func (m *Matrix) SetNode(node *v1.Node) []types.UID {
	if older := m.byName[node.Name]; older != nil && older.node.UID != node.UID {
		delete(m.rows, older.node.UID)
		m.order = nil
	}
	r := m.rows[node.UID]
	if r == nil {
		r = &row{}
		m.rows[node.UID], m.byName[node.Name], m.order = r, r, nil
	}
	pool := PoolOf(node, "")
	if r.pool != pool {
		m.order = nil
	}
	r.node, r.pool = node, pool
	return m.rejudge(node.Name)
}

// RemoveNode takes a node out and returns the daemons that wanted it or had a Pod
// on it. A UID that is no longer in the matrix changes nothing.
func (m *Matrix) RemoveNode(uid types.UID) []types.UID {
	r := m.rows[uid]
	if r == nil {
		return nil
	}
	delete(m.rows, uid)
	delete(m.byName, r.node.Name)
	m.order = nil
	return m.rejudge(r.node.Name)
}

// rejudge works one row out anew and returns the daemons it concerns.
func (m *Matrix) rejudge(nodeName string) []types.UID {
	r := m.byName[nodeName]
	var changed []types.UID
	for uid, c := range m.columns {
		if c.judgeCell(nodeName, r) {
			changed = append(changed, uid)
		}
	}
	slices.Sort(changed)
	return changed
}

// SetDaemon adds a daemon or takes in its change, and judges its whole column.
func (m *Matrix) SetDaemon(set *appsv1.DaemonSet) {
	c := m.column(set.UID)
	c.set, c.judge = set, NewJudge(set)
	for name, r := range m.byName {
		c.judgeCell(name, r)
	}
}

// RemoveDaemon takes a daemon out. Its Pods stay known until they go themselves.
func (m *Matrix) RemoveDaemon(uid types.UID) {
	c := m.columns[uid]
	if c == nil {
		return
	}
	c.set = nil
	for name := range c.cells {
		c.judgeCell(name, nil)
	}
	m.forgetIfEmpty(uid, c)
}

// SetPod adds a Pod or takes in its change, and returns the daemons concerned: its
// owner, and the owner before where that was another. A Pod that no DaemonSet
// controls, or that has no node in mind, is in no cell.
func (m *Matrix) SetPod(pod *v1.Pod) []types.UID {
	owner, target := OwnerOf(pod), TargetOf(pod)
	var changed []types.UID
	if before := m.pods[pod.UID]; before != nil {
		if OwnerOf(before) != owner || TargetOf(before) != target {
			changed = m.RemovePod(pod.UID)
		}
	}
	if owner == "" || target == "" {
		return changed
	}
	m.pods[pod.UID] = pod
	m.column(owner).change(target, func(c *cell) {
		pods := append(without(c.pods, pod.UID), pod)
		inOrder(pods)
		c.pods = pods
	})
	if slices.Contains(changed, owner) {
		return changed
	}
	return append(changed, owner)
}

// RemovePod takes a Pod out and returns the daemon that owned it, if one did.
func (m *Matrix) RemovePod(uid types.UID) []types.UID {
	pod := m.pods[uid]
	if pod == nil {
		return nil
	}
	delete(m.pods, uid)
	owner := OwnerOf(pod)
	c := m.columns[owner]
	c.change(TargetOf(pod), func(cell *cell) { cell.pods = without(cell.pods, uid) })
	m.forgetIfEmpty(owner, c)
	return []types.UID{owner}
}

// Pod is the Pod as the matrix knows it; nil if it does not.
func (m *Matrix) Pod(uid types.UID) *v1.Pod { return m.pods[uid] }

// Daemon is the set as the matrix knows it; nil if it does not.
func (m *Matrix) Daemon(uid types.UID) *appsv1.DaemonSet {
	if c := m.columns[uid]; c != nil {
		return c.set
	}
	return nil
}

func (m *Matrix) column(uid types.UID) *column {
	c := m.columns[uid]
	if c == nil {
		c = &column{cells: map[string]*cell{}}
		m.columns[uid] = c
	}
	return c
}

func (m *Matrix) forgetIfEmpty(uid types.UID, c *column) {
	if c.set == nil && len(c.cells) == 0 {
		delete(m.columns, uid)
	}
}

// sorted are the rows by pool and name.
func (m *Matrix) sorted() []*row {
	if m.order == nil {
		m.order = make([]*row, 0, len(m.rows))
		for _, r := range m.rows {
			m.order = append(m.order, r)
		}
		slices.SortFunc(m.order, func(a, b *row) int {
			if by := strings.Compare(a.pool, b.pool); by != 0 {
				return by
			}
			return strings.Compare(a.node.Name, b.node.Name)
		})
	}
	return m.order
}

func without(pods []*v1.Pod, uid types.UID) []*v1.Pod {
	rest := make([]*v1.Pod, 0, len(pods)+1)
	for _, pod := range pods {
		if pod.UID != uid {
			rest = append(rest, pod)
		}
	}
	return rest
}
