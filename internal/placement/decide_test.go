package placement

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/reason"
)

func TestMessageIsTheSchedulers(t *testing.T) {
	full := func(name string) *v1.Node { return node(name, has(v1.ResourceCPU, "1")) }
	var many []*v1.Node
	for i := range 12 {
		many = append(many, full(fmt.Sprintf("n%02d", i)))
	}
	many[0], many[1] = node("n00", tainted("k", "v", v1.TaintEffectNoSchedule)), node("n01", tainted("k", "v", v1.TaintEffectNoSchedule))
	big := pod("p", asks(v1.ResourceCPU, "2"))
	cases := []struct {
		name  string
		nodes []*v1.Node
		pod   *v1.Pod
		want  string
	}{
		{"no nodes", nil, big, "no nodes available to schedule pods"},
		{"one short", []*v1.Node{full("a")}, big, "0/1 nodes are available: 1 Insufficient cpu."},
		{"counts and taints", []*v1.Node{full("a"), node("b", tainted("k", "v", v1.TaintEffectNoSchedule)), node("c", tainted("k", "v", v1.TaintEffectNoExecute))}, big,
			"0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {k: v}."},
		{"sorted as text, not as numbers", many, big,
			"0/12 nodes are available: 10 Insufficient cpu, 2 node(s) had untolerated taint {k: v}."},
		{"a taint without value", []*v1.Node{node("a", tainted(v1.TaintNodeNotReady, "", v1.TaintEffectNoSchedule))}, big,
			"0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }."},
		{"the first filter speaks for the node", []*v1.Node{node("a", tainted("k", "", v1.TaintEffectNoSchedule), has(v1.ResourceCPU, "1"))}, big,
			"0/1 nodes are available: 1 node(s) had untolerated taint {k: }."},
		{"short of two", []*v1.Node{full("a")}, pod("p", asks(v1.ResourceCPU, "2"), asks(v1.ResourceMemory, "9Gi")),
			"0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."},
		{"a pinned Pod", []*v1.Node{full("a"), full("b"), full("c")}, pod("p", asks(v1.ResourceCPU, "2"), onNodes(named("b"))),
			"0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector."},
		{"a field nobody acts on", []*v1.Node{full("a")}, pod("p", volume("data", v1.VolumeSource{NFS: &v1.NFSVolumeSource{}})),
			"0/1 nodes are available: spec.volumes[0].nfs (data) is not acted on in this cluster: use hostPath, emptyDir, configMap, secret, downwardAPI or projected."},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			decision := Decide(c.pod, ledgerOf(c.nodes, nil))
			if decision.Placed() {
				t.Fatalf("placed on %s", decision.Node)
			}
			if got := decision.Message(); got != c.want {
				t.Errorf("message:\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestDecisionCountsNodesPerReason(t *testing.T) {
	nodes := []*v1.Node{node("a", has(v1.ResourceCPU, "1")), node("b", has(v1.ResourceCPU, "1")), node("c", labelled("x", "y"), tainted("k", "v", v1.TaintEffectNoSchedule))}
	got := Decide(pod("p", asks(v1.ResourceCPU, "2")), ledgerOf(nodes, nil))
	want := Decision{Nodes: 3, Unfit: []reason.Reason{
		{Code: reason.UntoleratedTaint, Object: "k=v:NoSchedule", Count: 1},
		{Code: reason.InsufficientResource, Object: "cpu", Asked: "2", Count: 2},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
}

func TestGatedPodsAreNotLookedAt(t *testing.T) {
	got := Decide(pod("p", func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "x"}} }), ledgerOf([]*v1.Node{node("a")}, nil))
	if got.Placed() || len(got.Waits) != 1 || got.Waits[0].Code != reason.SchedulingGated || len(got.Unfit) > 0 {
		t.Errorf("decision: %+v", got)
	}
}

func TestScores(t *testing.T) {
	weighted := func(term v1.PodAffinityTerm) []v1.WeightedPodAffinityTerm {
		return []v1.WeightedPodAffinityTerm{{Weight: 50, PodAffinityTerm: term}}
	}
	two := []*v1.Node{node("a", labelled(zone, "z1")), node("b", labelled(zone, "z2"))}
	cases := []struct {
		name  string
		nodes []*v1.Node
		pods  []*v1.Pod
		pod   *v1.Pod
		want  string
	}{
		{"the emptier node", two, []*v1.Pod{pod("q", on("a"), asks(v1.ResourceCPU, "2"))}, pod("p", asks(v1.ResourceCPU, "1")), "b"},
		{"in proportion to its size", []*v1.Node{node("a", has(v1.ResourceCPU, "16")), node("b", has(v1.ResourceCPU, "2"))},
			[]*v1.Pod{pod("q", on("a"), asks(v1.ResourceCPU, "2"))}, pod("p", asks(v1.ResourceCPU, "1")), "a"},
		{"fewer Pods where nothing else differs", two, []*v1.Pod{pod("q", on("b"))}, pod("p"), "a"},
		{"off the node that would rather not", []*v1.Node{node("a", tainted("k", "", v1.TaintEffectPreferNoSchedule)), node("b")},
			[]*v1.Pod{pod("q", on("b"), asks(v1.ResourceCPU, "2"))}, pod("p"), "b"},
		{"a preferred label", []*v1.Node{node("a"), node("b", labelled("disk", "ssd"))}, []*v1.Pod{pod("q", on("b"), asks(v1.ResourceCPU, "2"))},
			pod("p", func(p *v1.Pod) {
				affinityOf(p).NodeAffinity = &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{
					Weight: 1, Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "disk", Operator: v1.NodeSelectorOpIn, Values: []string{"ssd"}}}}}}}
			}), "b"},
		{"preferred company", two, []*v1.Pod{pod("q", on("b"), tagged("app", "db"), asks(v1.ResourceCPU, "2"))}, pod("p", func(p *v1.Pod) {
			affinityOf(p).PodAffinity = &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted(app("db", zone))}
		}), "b"},
		{"preferred distance", two, []*v1.Pod{pod("q", on("a"), tagged("app", "db")), pod("r", on("b"), asks(v1.ResourceCPU, "2"))}, pod("p", func(p *v1.Pod) {
			affinityOf(p).PodAntiAffinity = &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted(app("db", zone))}
		}), "b"},
		{"soft spreading", two, []*v1.Pod{pod("q", on("a"), tagged("app", "w")), pod("r", on("b"), asks(v1.ResourceCPU, "2"))},
			pod("p", tagged("app", "w"), spread("w", zone, 1, func(c *v1.TopologySpreadConstraint) { c.WhenUnsatisfiable = v1.ScheduleAnyway })), "b"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := Decide(c.pod, ledgerOf(c.nodes, c.pods)).Node; got != c.want {
				t.Errorf("placed on %q, want %q", got, c.want)
			}
		})
	}
}

func TestEqualNodesShareThePods(t *testing.T) {
	var nodes []*v1.Node
	for i := range 4 {
		nodes = append(nodes, node(fmt.Sprintf("n%d", i)))
	}
	first := map[string]int{}
	for i := range 40 {
		p := pod(fmt.Sprintf("p%d", i))
		one, again := Decide(p, ledgerOf(nodes, nil)).Node, Decide(p, ledgerOf(nodes, nil)).Node
		if one != again {
			t.Fatalf("%s goes to %s and to %s", p.Name, one, again)
		}
		first[one]++
	}
	for _, n := range nodes {
		if first[n.Name] == 0 {
			t.Errorf("no Pod would ever start on %s: %v", n.Name, first)
		}
	}
}

func TestWhatWakesWaitingPods(t *testing.T) {
	base := node("a")
	nodes := []struct {
		name string
		node *v1.Node
		want bool
	}{
		{"only a heartbeat", node("a", func(n *v1.Node) {
			n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, LastHeartbeatTime: metav1.Unix(5, 0)}}
		}), false},
		{"more room", node("a", has(v1.ResourceCPU, "8")), true},
		{"a label", node("a", labelled("x", "y")), true},
		{"a taint", node("a", tainted("k", "", v1.TaintEffectNoSchedule)), true},
		{"a cordon", node("a", func(n *v1.Node) { n.Spec.Unschedulable = true }), true},
		{"another node of the name", node("a", func(n *v1.Node) { n.UID = "new" }), true},
	}
	for _, c := range nodes {
		if got := MakesRoom(base, c.node); got != c.want {
			t.Errorf("node: %s: %v", c.name, got)
		}
	}
	running := pod("p", on("a"), asks(v1.ResourceCPU, "1"))
	pods := []struct {
		name     string
		old, pod *v1.Pod
		want     bool
	}{
		{"unbound", nil, pod("p"), false},
		{"new on a node", nil, running, true},
		{"newly bound", pod("p"), running, true},
		{"nothing of interest", running, pod("p", on("a"), asks(v1.ResourceCPU, "1"), phase(v1.PodRunning)), false},
		{"ended", running, pod("p", on("a"), asks(v1.ResourceCPU, "1"), phase(v1.PodFailed)), true},
		{"on its way out", running, pod("p", on("a"), asks(v1.ResourceCPU, "1"), terminating), true},
		{"relabelled", running, pod("p", on("a"), asks(v1.ResourceCPU, "1"), tagged("x", "y")), true},
		{"resized", running, pod("p", on("a"), asks(v1.ResourceCPU, "2")), true},
	}
	for _, c := range pods {
		if got := ChangesRoom(c.old, c.pod); got != c.want {
			t.Errorf("Pod: %s: %v", c.name, got)
		}
	}
	for name, p := range map[string]*v1.Pod{"affinity": pod("p", near(app("x", zone))), "anti-affinity": pod("p", awayFrom(app("x", zone))), "spread": pod("p", spread("x", zone, 1))} {
		if !LooksAround(p) {
			t.Errorf("a Pod with %s does not look around", name)
		}
	}
	if LooksAround(pod("p", onNodes(named("a")))) {
		t.Error("a Pod with node affinity alone looks around")
	}
	either := onNodes(v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "x", Operator: v1.NodeSelectorOpExists}}})
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want bool
	}{
		"no affinity": {pod("p"), false}, "by label": {pod("p", either), false},
		"to this node": {pod("p", onNodes(named("a"))), false}, "to another": {pod("p", onNodes(named("b"))), true},
	} {
		if got := ConfinedElsewhere(c.pod, "a"); got != c.want {
			t.Errorf("confined elsewhere, %s: %v", name, got)
		}
	}
}
