package nodelife

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/reason"
)

func TestCollect(t *testing.T) {
	pod := func(node string, leaving bool) *v1.Pod {
		p := &v1.Pod{Spec: v1.PodSpec{NodeName: node}}
		if leaving {
			now := metav1.NewTime(start)
			p.DeletionTimestamp = &now
		}
		return p
	}
	off := func(ready v1.ConditionStatus) *v1.Node {
		return withTaints(node(ready), v1.Taint{Key: v1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: v1.TaintEffectNoExecute})
	}
	orphan := reason.Reason{Code: reason.DeletionByPodGC, Object: "a"}
	outOfService := reason.Reason{Code: reason.TerminatingOutOfService, Object: "a"}
	cases := []struct {
		name string
		pod  *v1.Pod
		node *v1.Node
		now  int
		want Collection
	}{
		{"unbound", pod("", false), nil, 0, Collection{}},
		{"unbound and to go", pod("", true), nil, 0, Collection{Collect: true, Reason: reason.Reason{Code: reason.TerminatingUnbound}}},
		{"on a node", pod("a", false), node(v1.ConditionTrue), 100, Collection{}},
		{"to go, on a node that ends it", pod("a", true), node(v1.ConditionTrue), 100, Collection{}},
		{"to go, on a node that is silent", pod("a", true), node(v1.ConditionUnknown), 100, Collection{}},
		{"to go, on a node that is off", pod("a", true), off(v1.ConditionUnknown), 0, Collection{Collect: true, Reason: outOfService}},
		{"to go, on a node that is off and not ready", pod("a", true), off(v1.ConditionFalse), 0, Collection{Collect: true, Reason: outOfService}},
		{"to go, on a node that is said to be off and speaks", pod("a", true), off(v1.ConditionTrue), 0, Collection{}},
		{"to stay, on a node that is off", pod("a", false), off(v1.ConditionUnknown), 0, Collection{}},
		{"C43: its node has gone just now", pod("a", false), nil, 0, Collection{NotBefore: at(40), Reason: orphan}},
		{"still in quarantine", pod("a", true), nil, 39, Collection{NotBefore: at(40), Reason: orphan}},
		{"out of quarantine", pod("a", false), nil, 40, Collection{Collect: true, Disrupted: true, Reason: orphan}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Collect(c.pod, c.node, start, at(c.now))); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
	if got := orphan.Text(); got != "PodGC: node no longer exists" {
		t.Errorf("what is said on an orphan: %q", got)
	}
}

func TestExcess(t *testing.T) {
	var pods []*v1.Pod
	for i, phase := range []v1.PodPhase{v1.PodFailed, v1.PodRunning, v1.PodSucceeded, v1.PodPending, v1.PodFailed, v1.PodFailed} {
		pods = append(pods, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i), CreationTimestamp: metav1.NewTime(at(-i))}, // the later, the older
			Status:     v1.PodStatus{Phase: phase},
		})
	}
	now := metav1.NewTime(start)
	pods[5].DeletionTimestamp = &now // is going anyway
	for most, want := range map[int][]string{0: {"p4", "p2", "p0"}, 1: {"p4", "p2"}, 2: {"p4"}, 3: nil} {
		got, why := Excess(pods, most)
		var names []string
		for _, p := range got {
			names = append(names, p.Name)
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("keeping %d (-want +got):\n%s", most, diff)
		}
		if len(want) > 0 && (why.Count != 3 || why.Asked != fmt.Sprint(most)) {
			t.Errorf("keeping %d, because %+v", most, why)
		}
	}
}
