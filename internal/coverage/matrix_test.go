package coverage_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/testkit/build"
)

// twin is the matrix worked out by someone who remembers nothing: it keeps the
// objects and answers every question from scratch.
type twin struct {
	nodes map[types.UID]*v1.Node
	sets  map[types.UID]*appsv1.DaemonSet
	pods  map[types.UID]*v1.Pod
}

func (w twin) column(set *appsv1.DaemonSet) coverage.Column {
	column := coverage.Column{Set: set}
	var adrift []*v1.Pod
	judge := coverage.NewJudge(set)
	for _, node := range w.nodes {
		column.Cells = append(column.Cells, coverage.Cell{Node: node, Pool: coverage.PoolOf(node, ""), Verdict: judge.Verdict(node)})
	}
	slices.SortFunc(column.Cells, func(a, b coverage.Cell) int {
		return strings.Compare(a.Pool+"\x00"+a.Node.Name, b.Pool+"\x00"+b.Node.Name)
	})
	for _, pod := range w.pods {
		if coverage.OwnerOf(pod) != set.UID || coverage.TargetOf(pod) == "" {
			continue
		}
		at := slices.IndexFunc(column.Cells, func(c coverage.Cell) bool { return c.Node.Name == coverage.TargetOf(pod) })
		if at < 0 {
			adrift = append(adrift, pod)
			continue
		}
		column.Cells[at].Pods = append(column.Cells[at].Pods, pod)
	}
	for i := range column.Cells {
		ranked(column.Cells[i].Pods)
	}
	slices.SortFunc(adrift, func(a, b *v1.Pod) int {
		if by := strings.Compare(coverage.TargetOf(a), coverage.TargetOf(b)); by != 0 {
			return by
		}
		return compareRank(a, b)
	})
	column.Adrift = adrift
	column.Counts = counts(column.Cells)
	return column
}

func compareRank(a, b *v1.Pod) int { return strings.Compare(rank(a), rank(b)) }

// rank writes who stands for a node first as one comparable word.
func rank(pod *v1.Pod) string {
	word := fmt.Sprint(pod.DeletionTimestamp != nil, pod.Spec.NodeName == "")
	return word + pod.CreationTimestamp.UTC().Format(time.RFC3339) + fmt.Sprint(!coverage.Ready(pod)) + pod.Name + string(pod.UID)
}

func ranked(pods []*v1.Pod) { slices.SortFunc(pods, compareRank) }

func counts(cells []coverage.Cell) (n coverage.Counts) {
	for _, cell := range cells {
		n.Nodes++
		has := len(cell.Pods) > 0
		switch {
		case cell.Wanted && has:
			n.Wanted++
			n.Current++
			if coverage.Ready(cell.Pods[0]) {
				n.Ready++
			}
		case cell.Wanted:
			n.Wanted++
		case has:
			n.Misscheduled++
		}
	}
	return n
}

func (w twin) compare(t *rapid.T, matrix *coverage.Matrix) {
	for _, set := range w.sets {
		want := w.column(set)
		got, ok := matrix.Column(set.UID)
		if !ok {
			t.Fatalf("the matrix has lost %s", set.Name)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("column %s differs from the one worked out anew (-anew +kept):\n%s", set.Name, diff)
		}
	}
	if got := len(matrix.Daemons()); got != len(w.sets) {
		t.Fatalf("the matrix has %d daemons, should have %d", got, len(w.sets))
	}
}

// draw makes random objects over a few names, so that histories meet.
type draw struct{ *rapid.T }

func (d draw) of(name string, from ...string) string { return rapid.SampledFrom(from).Draw(d.T, name) }
func (d draw) flip(name string) bool                 { return rapid.Bool().Draw(d.T, name) }

func (d draw) node() *v1.Node {
	node := build.Node(d.of("node", "a", "b", "c", "d"))
	node.UID += types.UID(d.of("incarnation", "", "-again"))
	if d.flip("labelled") {
		build.Labelled("role=x")(node)
	}
	if pool := d.of("pool", "", "p1", "p2"); pool != "" {
		build.Labelled(coverage.PoolLabels[0] + "=" + pool)(node)
	}
	if taint := d.of("taint", "", "gpu=true:NoSchedule", "gpu=true:NoExecute"); taint != "" {
		build.Tainted(taint)(node)
	}
	return node
}

func (d draw) set() *appsv1.DaemonSet {
	set := build.DaemonSet(d.of("set", "s1", "s2"))
	if d.flip("selects") {
		build.Selecting("role=x")(set)
	}
	if d.flip("tolerates") {
		build.Tolerating("gpu=true:NoSchedule")(set)
	}
	return set
}

func (d draw) pod() *v1.Pod {
	set := build.DaemonSet(d.of("owner", "s1", "s2"))
	pod := build.DaemonPod(set, d.of("on", "a", "b", "c", "d", "nowhere"), d.of("hash", "h1", "h2"))
	build.Named(d.of("pod", "p1", "p2", "p3", "p4", "p5"))(pod)
	build.Created(time.Duration(rapid.IntRange(0, 2).Draw(d.T, "age")) * time.Second)(pod)
	if d.flip("unready") {
		build.Unready(pod)
	}
	if d.flip("terminating") {
		build.Terminating(pod)
	}
	if d.flip("orphan") {
		pod.OwnerReferences = nil
	}
	if d.flip("unbound") {
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{pod.Spec.NodeName},
			}}}},
		}}}
		pod.Spec.NodeName = ""
	}
	return pod
}

func TestMatrixAgreesWithItsTwinAfterEveryStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		matrix, d := coverage.New(), draw{t}
		world := twin{nodes: map[types.UID]*v1.Node{}, sets: map[types.UID]*appsv1.DaemonSet{}, pods: map[types.UID]*v1.Pod{}}
		t.Repeat(map[string]func(*rapid.T){
			"set node": func(t *rapid.T) {
				node := d.node()
				for uid, other := range world.nodes {
					if other.Name == node.Name && uid != node.UID {
						delete(world.nodes, uid)
					}
				}
				world.nodes[node.UID] = node
				matrix.SetNode(node)
			},
			"remove node": func(t *rapid.T) {
				node := d.node()
				delete(world.nodes, node.UID)
				matrix.RemoveNode(node.UID)
			},
			"set daemon": func(t *rapid.T) {
				set := d.set()
				world.sets[set.UID] = set
				matrix.SetDaemon(set)
			},
			"remove daemon": func(t *rapid.T) {
				set := d.set()
				delete(world.sets, set.UID)
				matrix.RemoveDaemon(set.UID)
			},
			"set pod": func(t *rapid.T) {
				pod := d.pod()
				world.pods[pod.UID] = pod
				matrix.SetPod(pod)
			},
			"remove pod": func(t *rapid.T) {
				pod := d.pod()
				delete(world.pods, pod.UID)
				matrix.RemovePod(pod.UID)
			},
			"": func(t *rapid.T) { world.compare(t, matrix) },
		})
	})
}

func TestSnapshotsDoNotChangeAfterwards(t *testing.T) {
	matrix := coverage.New()
	set := build.DaemonSet("logd")
	matrix.SetDaemon(set)
	matrix.SetNode(build.Node("a"))
	matrix.SetPod(build.DaemonPod(set, "a", "h1"))
	before, _ := matrix.Column(set.UID)
	matrix.SetPod(build.DaemonPod(set, "a", "h1", build.Unready))
	matrix.SetPod(build.DaemonPod(set, "a", "h1", build.Named("other")))
	matrix.RemoveNode("node-a")
	if len(before.Cells) != 1 || len(before.Cells[0].Pods) != 1 || !coverage.Ready(before.Cells[0].Pods[0]) {
		t.Errorf("a snapshot followed the matrix: %+v", before.Cells)
	}
}

func TestChangesNameTheDaemonsTheyConcern(t *testing.T) {
	matrix := coverage.New()
	everywhere, x := build.DaemonSet("all"), build.DaemonSet("x", build.Selecting("role=x"))
	matrix.SetDaemon(everywhere)
	matrix.SetDaemon(x)
	expect := func(what string, got []types.UID, want ...types.UID) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s concerns %v, should concern %v", what, got, want)
		}
	}
	expect("a new node", matrix.SetNode(build.Node("a")), everywhere.UID, x.UID)
	expect("a heartbeat", matrix.SetNode(build.Node("a")))
	expect("a label", matrix.SetNode(build.Node("a", build.Labelled("role=x"))), x.UID)
	expect("a Pod", matrix.SetPod(build.DaemonPod(x, "a", "h1")), x.UID)
	expect("a change of owner", matrix.SetPod(build.DaemonPod(everywhere, "a", "h1", func(pod *v1.Pod) { pod.UID = "pod-x-a-h1" })), x.UID, everywhere.UID)
	expect("a Pod's end", matrix.RemovePod("pod-x-a-h1"), everywhere.UID)
	expect("a node of another incarnation", matrix.RemoveNode("node-a-again"))
	expect("a node's end", matrix.RemoveNode("node-a"), everywhere.UID, x.UID)
}
