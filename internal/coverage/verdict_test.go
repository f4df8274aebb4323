package coverage_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/testkit/build"
)

func affinity(terms ...v1.NodeSelectorTerm) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) {
		set.Spec.Template.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
}

func label(key string, operator v1.NodeSelectorOperator, values ...string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func TestVerdict(t *testing.T) {
	type sets = []func(*appsv1.DaemonSet)
	type nodes = []func(*v1.Node)
	field := v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{"b"}}}}
	hostNetwork := func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.HostNetwork = true }
	anything := func(set *appsv1.DaemonSet) {
		set.Spec.Template.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	}
	bound := func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.NodeName = "b" }
	for _, row := range []struct {
		name         string
		set          sets
		node         nodes
		wanted, stay bool
		why          []string
	}{
		{name: "a plain node wants a plain daemon", wanted: true, stay: true},
		{
			name: "C30: an untolerated taint keeps a new pool uncovered, and says so",
			node: nodes{build.Tainted("gpu=true:NoSchedule")}, stay: true,
			why: []string{"untolerated taint gpu=true:NoSchedule"},
		},
		{name: "C30: the toleration covers it", set: sets{build.Tolerating("gpu=true:NoSchedule")}, node: nodes{build.Tainted("gpu=true:NoSchedule")}, wanted: true, stay: true},
		{
			name: "C33: NoExecute without toleration removes the Pod",
			node: nodes{build.Tainted("gpu=true:NoExecute")}, why: []string{"untolerated taint gpu=true:NoExecute"},
		},
		{
			name: "every untolerated taint is named",
			node: nodes{build.Tainted("gpu=true:NoSchedule"), build.Tainted("spot:NoExecute")},
			why:  []string{"untolerated taint gpu=true:NoSchedule", "untolerated taint spot:NoExecute"},
		},
		{name: "PreferNoSchedule keeps nobody out", node: nodes{build.Tainted("slow:PreferNoSchedule")}, wanted: true, stay: true},
		{name: "C35: a cordoned node wants its daemon", node: nodes{build.Tainted(v1.TaintNodeUnschedulable + ":NoSchedule")}, wanted: true, stay: true},
		{
			name: "a node in trouble keeps its daemon",
			node: nodes{
				build.Tainted(v1.TaintNodeNotReady + ":NoExecute"), build.Tainted(v1.TaintNodeUnreachable + ":NoExecute"),
				build.Tainted(v1.TaintNodeDiskPressure + ":NoSchedule"), build.Tainted(v1.TaintNodeMemoryPressure + ":NoSchedule"),
				build.Tainted(v1.TaintNodePIDPressure + ":NoSchedule"),
			},
			wanted: true, stay: true,
		},
		{
			name: "no network keeps out who needs one", node: nodes{build.Tainted(v1.TaintNodeNetworkUnavailable + ":NoSchedule")}, stay: true,
			why: []string{"untolerated taint " + v1.TaintNodeNetworkUnavailable + ":NoSchedule"},
		},
		{name: "no network is no matter on the node's own", set: sets{hostNetwork}, node: nodes{build.Tainted(v1.TaintNodeNetworkUnavailable + ":NoSchedule")}, wanted: true, stay: true},
		{name: "a daemon that tolerates everything goes everywhere", set: sets{anything}, node: nodes{build.Tainted("x=y:NoExecute")}, wanted: true, stay: true},
		{name: "C37: a label that is gone takes the Pod with it", set: sets{build.Selecting("role=x")}, why: []string{"node(s) didn't match Pod's node affinity/selector"}},
		{name: "a selector that matches", set: sets{build.Selecting("role=x")}, node: nodes{build.Labelled("role=x")}, wanted: true, stay: true},
		{name: "C32: NotIn keeps virtual nodes out", set: sets{anything, affinity(label("type", v1.NodeSelectorOpNotIn, "virtual"))}, node: nodes{build.Labelled("type=virtual")}, why: []string{"node(s) didn't match Pod's node affinity/selector"}},
		{name: "terms of an affinity are alternatives", set: sets{affinity(label("a", v1.NodeSelectorOpExists), label("b", v1.NodeSelectorOpExists))}, node: nodes{build.Labelled("b=")}, wanted: true, stay: true},
		{name: "an affinity may name nodes", set: sets{affinity(field)}, why: []string{"node(s) didn't match Pod's node affinity/selector"}},
		{name: "a template may name its node", set: sets{bound}, why: []string{"node(s) didn't match Pod's node affinity/selector"}},
		{name: "a selector mismatch is said before a taint", set: sets{build.Selecting("role=x")}, node: nodes{build.Tainted("gpu=true:NoSchedule")}, why: []string{"node(s) didn't match Pod's node affinity/selector"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			verdict := coverage.NewJudge(build.DaemonSet("logd", row.set...)).Verdict(build.Node("a", row.node...))
			var why []string
			for _, each := range verdict.Reasons {
				why = append(why, each.Text())
			}
			if verdict.Wanted != row.wanted || verdict.MayStay != row.stay || !cmp.Equal(why, row.why) {
				t.Errorf("wanted %v, may stay %v, because %q; should be %v, %v, %q", verdict.Wanted, verdict.MayStay, why, row.wanted, row.stay, row.why)
			}
		})
	}
}

func TestVerdictSaysWhatWasSelected(t *testing.T) {
	set := build.DaemonSet("logd", build.Selecting("role=x", "arch=arm"),
		affinity(label("zone", v1.NodeSelectorOpIn, "a", "b"), label("old", v1.NodeSelectorOpDoesNotExist)))
	got := coverage.NewJudge(set).Verdict(build.Node("n")).Reasons[0].Object
	if want := "arch=arm,role=x,zone in (a,b) or !old"; got != want {
		t.Errorf("the selection reads %q, should read %q", got, want)
	}
}

func TestTolerationsAddsOnlyWhatIsMissing(t *testing.T) {
	spec := &v1.PodSpec{Tolerations: []v1.Toleration{{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}}}
	if got := coverage.Tolerations(spec); len(got) != 6 {
		t.Errorf("%d tolerations, should be the six automatic ones once each: %v", len(got), got)
	}
	if len(spec.Tolerations) != 1 {
		t.Error("the template's own tolerations were changed")
	}
}
