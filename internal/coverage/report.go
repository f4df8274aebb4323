package coverage

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/reason"
)

// Report is the matrix read out by pool. Its JSON form is stable: fields are
// added, never renamed or given another meaning.
type Report struct {
	Kind       string `json:"kind"`       // always CoverageReport
	APIVersion string `json:"apiVersion"` // always muster.dev/v1
	// PoolLabel is the node label that sorts nodes into pools; empty when the
	// commonly used ones were tried in turn.
	PoolLabel string `json:"poolLabel,omitempty"`
	// Lines are one per daemon and pool, by pool, namespace and name.
	Lines []Line `json:"lines"`
}

// Line is one daemon in one pool.
type Line struct {
	Pool      string `json:"pool"`
	Namespace string `json:"namespace"`
	Daemon    string `json:"daemon"`
	// Nodes is the number of nodes in the pool; Wanted of those the daemon belongs
	// on; Ready of those where its Pod is Ready.
	Nodes  int `json:"nodes"`
	Wanted int `json:"wanted"`
	Ready  int `json:"ready"`
	// Misscheduled is the number of nodes with a Pod that are no longer eligible.
	Misscheduled int `json:"misscheduled"`
	// Holes are the nodes that lack the daemon: wanted and not Ready, or chosen by
	// the daemon's own selectors and kept out by a taint alone. By node name.
	Holes []Hole `json:"holes"`
}

// Hole is one node that lacks a daemon, and why.
type Hole struct {
	Node   string `json:"node"`
	Wanted bool   `json:"wanted"`
	// Pod and Revision are those of the Pod that stands for the node, if there is one.
	Pod      string `json:"pod,omitempty"`
	Revision string `json:"revision,omitempty"`
	Reasons  []Why  `json:"reasons"`
}

// Why is a reason with its rendering, so that a reader of the JSON needs no table.
type Why struct {
	reason.Reason
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
}

// Report reads the matrix out by pool. An empty poolLabel means the commonly used
// ones; where no node has any, all nodes are one pool.
func (m *Matrix) Report(poolLabel string, now time.Time) Report {
	report := Report{Kind: "CoverageReport", APIVersion: "muster.dev/v1", PoolLabel: poolLabel, Lines: []Line{}}
	nameless := PoolAll
	for _, r := range m.rows {
		if PoolOf(r.node, poolLabel) != "" {
			nameless = PoolNone
		}
	}
	for _, uid := range m.Daemons() {
		column, _ := m.Column(uid)
		report.Lines = append(report.Lines, column.lines(poolLabel, nameless, now)...)
	}
	slices.SortStableFunc(report.Lines, func(a, b Line) int { return strings.Compare(a.Pool, b.Pool) })
	return report
}

// lines reads one column out, a line per pool.
func (c Column) lines(poolLabel, nameless string, now time.Time) []Line {
	var order []string
	byPool := map[string]*Line{}
	for _, cell := range c.Cells {
		pool := PoolOf(cell.Node, poolLabel)
		if pool == "" {
			pool = nameless
		}
		line := byPool[pool]
		if line == nil {
			line = &Line{Pool: pool, Namespace: c.Set.Namespace, Daemon: c.Set.Name, Holes: []Hole{}}
			byPool[pool] = line
			order = append(order, pool)
		}
		line.count(cell, now)
	}
	slices.Sort(order)
	lines := make([]Line, 0, len(order))
	for _, pool := range order {
		line := byPool[pool]
		slices.SortFunc(line.Holes, func(a, b Hole) int { return strings.Compare(a.Node, b.Node) })
		lines = append(lines, *line)
	}
	return lines
}

func (l *Line) count(cell Cell, now time.Time) {
	l.Nodes++
	pod := cell.Pod()
	if !cell.Wanted && pod != nil {
		l.Misscheduled++
	}
	if cell.Wanted {
		l.Wanted++
		if pod != nil && Ready(pod) {
			l.Ready++
			return
		}
	}
	if !cell.Wanted && !cell.Tainted() {
		return
	}
	l.Holes = append(l.Holes, cell.hole(pod, now))
}

func (c Cell) hole(pod *v1.Pod, now time.Time) Hole {
	hole := Hole{Node: c.Node.Name, Wanted: c.Wanted}
	if pod != nil {
		hole.Pod, hole.Revision = pod.Name, RevisionOf(pod)
	}
	for _, r := range c.Missing(now) {
		hole.Reasons = append(hole.Reasons, Why{Reason: r, Text: r.Text(), Remedy: r.Remedy()})
	}
	return hole
}

// Missing says why the node lacks the daemon; none where it is Ready or was never
// chosen.
func (c Cell) Missing(now time.Time) []reason.Reason {
	pod := c.Pod()
	switch {
	case !c.Wanted:
		return c.keptOut()
	case pod == nil:
		missing := reason.Reason{Code: reason.PodMissing, Object: c.Node.Name}
		return append(nodeReasons(c.Node), missing)
	}
	return PodReasons(pod, c.Node, now)
}

// keptOut are the reasons of the verdict, with the trouble of the node in place of
// the taints that only stand for it: no toleration mends a node.
func (c Cell) keptOut() []reason.Reason {
	var rest []reason.Reason
	for _, r := range c.Reasons {
		key, _, _ := strings.Cut(r.Object, ":")
		if r.Code != reason.UntoleratedTaint || (key != v1.TaintNodeNotReady && key != v1.TaintNodeUnreachable) {
			rest = append(rest, r)
		}
	}
	if len(rest) == len(c.Reasons) {
		return rest
	}
	return append(nodeReasons(c.Node), rest...)
}

func compareSets(a, b *appsv1.DaemonSet) int {
	if by := strings.Compare(a.Namespace, b.Namespace); by != 0 {
		return by
	}
	return strings.Compare(a.Name, b.Name)
}
