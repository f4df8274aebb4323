package coverage_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/testkit/build"
)

// numbers are a report's lines without their reasons.
func numbers(report coverage.Report) []coverage.Line {
	lines := make([]coverage.Line, len(report.Lines))
	for i, line := range report.Lines {
		for j := range line.Holes {
			line.Holes[j].Reasons = nil
		}
		lines[i] = line
	}
	return lines
}

func TestC30AReportNamesThePoolThatIsNotCovered(t *testing.T) {
	matrix := coverage.New()
	set := build.DaemonSet("logd")
	matrix.SetDaemon(set)
	for _, name := range []string{"a1", "a2", "a3"} {
		matrix.SetNode(build.Node(name, build.Labelled("pool=a")))
		matrix.SetPod(build.DaemonPod(set, name, "h"))
	}
	for _, name := range []string{"b1", "b2"} {
		matrix.SetNode(build.Node(name, build.Labelled("pool=b"), build.Tainted("gpu=true:NoSchedule")))
	}
	report := matrix.Report("pool", build.Start)
	holes := report.Lines[1].Holes
	if len(holes) != 2 || len(holes[0].Reasons) != 1 {
		t.Fatalf("holes are %+v, should be both nodes with their reason", holes)
	}
	why := holes[0].Reasons[0]
	if why.Text != "untolerated taint gpu=true:NoSchedule" || why.Remedy != "add a toleration for gpu=true:NoSchedule to the Pod template" {
		t.Errorf("the reason is %q, the remedy %q", why.Text, why.Remedy)
	}
	want := []coverage.Line{
		{Pool: "a", Namespace: "default", Daemon: "logd", Nodes: 3, Wanted: 3, Ready: 3, Holes: []coverage.Hole{}},
		{Pool: "b", Namespace: "default", Daemon: "logd", Nodes: 2, Holes: []coverage.Hole{{Node: "b1"}, {Node: "b2"}}},
	}
	if diff := cmp.Diff(want, numbers(report)); diff != "" {
		t.Errorf("the lines differ (-want +got):\n%s", diff)
	}
}

func TestAReportLeavesOutWhatTheSelectorLeavesOut(t *testing.T) {
	matrix := coverage.New()
	canary := build.DaemonSet("canary", build.Selecting("canary=true"))
	matrix.SetDaemon(canary)
	matrix.SetNode(build.Node("a", build.Labelled("canary=true")))
	matrix.SetNode(build.Node("b"))
	matrix.SetNode(build.Node("c"))
	matrix.SetPod(build.DaemonPod(canary, "c", "h"))
	report := matrix.Report("", build.Start)
	want := []coverage.Line{{
		Pool: "all", Namespace: "default", Daemon: "canary", Nodes: 3, Wanted: 1, Misscheduled: 1,
		Holes: []coverage.Hole{{Node: "a", Wanted: true}},
	}}
	if got := report.Lines[0].Holes[0].Reasons[0].Text; got != "no Pod has been created yet" {
		t.Errorf("the reason is %q", got)
	}
	if diff := cmp.Diff(want, numbers(report)); diff != "" {
		t.Errorf("the lines differ (-want +got):\n%s", diff)
	}
}

func TestADeadNodeIsAHoleForItsOwnTrouble(t *testing.T) {
	matrix := coverage.New()
	set := build.DaemonSet("logd")
	matrix.SetDaemon(set)
	matrix.SetNode(build.Node("a", build.Tainted(v1.TaintNodeUnreachable+":NoSchedule"), build.Tainted("x=y:NoSchedule"), func(node *v1.Node) {
		node.Status.Conditions[0] = v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionUnknown, Reason: "NodeStatusUnknown"}
	}))
	matrix.SetPod(build.DaemonPod(set, "a", "h"))
	line := matrix.Report("", build.Start).Lines[0]
	if line.Wanted != 0 || line.Misscheduled != 1 || len(line.Holes) != 1 {
		t.Fatalf("the line is %+v, should have one hole that no count shows", line)
	}
	var got []string
	for _, why := range line.Holes[0].Reasons {
		got = append(got, why.Text)
	}
	if diff := cmp.Diff([]string{"node a is not ready: NodeStatusUnknown", "untolerated taint x=y:NoSchedule"}, got); diff != "" {
		t.Errorf("the reasons differ (-want +got):\n%s", diff)
	}
}

func TestPools(t *testing.T) {
	for _, row := range []struct {
		name, label string
		labels      []string
		want        string
	}{
		{name: "a provider's label", labels: []string{"cloud.google.com/gke-nodepool=gpu"}, want: "gpu"},
		{name: "the more telling of two", labels: []string{"eks.amazonaws.com/nodegroup=ng", "karpenter.sh/nodepool=kp"}, want: "kp"},
		{name: "the label given, and no other", label: "mine", labels: []string{"cloud.google.com/gke-nodepool=gpu", "mine=x"}, want: "x"},
		{name: "the label given is missing", label: "mine", labels: []string{"cloud.google.com/gke-nodepool=gpu"}, want: ""},
		{name: "no label", want: ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := coverage.PoolOf(build.Node("a", build.Labelled(row.labels...)), row.label); got != row.want {
				t.Errorf("pool %q, should be %q", got, row.want)
			}
		})
	}
}

func TestANodeWithoutTheLabelOthersHaveIsInNoPool(t *testing.T) {
	matrix := coverage.New()
	matrix.SetDaemon(build.DaemonSet("logd"))
	matrix.SetNode(build.Node("a", build.Labelled(coverage.PoolLabels[0]+"=p")))
	matrix.SetNode(build.Node("b"))
	var pools []string
	for _, line := range matrix.Report("", build.Start).Lines {
		pools = append(pools, line.Pool)
	}
	if diff := cmp.Diff([]string{coverage.PoolNone, "p"}, pools); diff != "" {
		t.Errorf("pools differ (-want +got):\n%s", diff)
	}
}

func TestTheTargetOfAPod(t *testing.T) {
	plain := &v1.Pod{}
	if got := coverage.TargetOf(plain); got != "" {
		t.Errorf("a plain Pod is meant for %q", got)
	}
}
