package nodelife

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"muster.dev/muster/internal/reason"
)

func TestConditionsBecomeTaints(t *testing.T) {
	foreign := v1.Taint{Key: "example.com/mine", Value: "x", Effect: v1.TaintEffectNoExecute}
	prefer := v1.Taint{Key: v1.TaintNodeMemoryPressure, Effect: v1.TaintEffectPreferNoSchedule}
	cordoned := node(v1.ConditionTrue)
	cordoned.Spec.Unschedulable = true
	cases := []struct {
		name string
		node *v1.Node
		want []v1.Taint
		kept bool // nothing changes
	}{
		{"ready", node(v1.ConditionTrue), nil, true},
		{"not ready", node(v1.ConditionFalse), []v1.Taint{noSchedule(v1.TaintNodeNotReady), noExecute(v1.TaintNodeNotReady)}, false},
		{"unknown", node(v1.ConditionUnknown), []v1.Taint{noSchedule(v1.TaintNodeUnreachable), noExecute(v1.TaintNodeUnreachable)}, false},
		{"has not spoken yet", node(""), []v1.Taint{noSchedule(v1.TaintNodeNotReady)}, false},
		{"has not spoken yet and is tainted by admission", withTaints(node(""), noSchedule(v1.TaintNodeNotReady)), []v1.Taint{noSchedule(v1.TaintNodeNotReady)}, true},
		{"ready at last", withTaints(node(v1.ConditionTrue), noSchedule(v1.TaintNodeNotReady), noExecute(v1.TaintNodeNotReady)), nil, false},
		{"from not ready to unknown", withTaints(node(v1.ConditionUnknown), noSchedule(v1.TaintNodeNotReady), noExecute(v1.TaintNodeNotReady)),
			[]v1.Taint{noSchedule(v1.TaintNodeUnreachable), noExecute(v1.TaintNodeUnreachable)}, false},
		{"back from unknown", withTaints(node(v1.ConditionTrue), noSchedule(v1.TaintNodeUnreachable), noExecute(v1.TaintNodeUnreachable)), nil, false},
		{"every pressure", node(v1.ConditionTrue, v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure, v1.NodeNetworkUnavailable), []v1.Taint{
			noSchedule(v1.TaintNodeMemoryPressure), noSchedule(v1.TaintNodeDiskPressure), noSchedule(v1.TaintNodePIDPressure), noSchedule(v1.TaintNodeNetworkUnavailable)}, false},
		{"pressure that has gone", withTaints(node(v1.ConditionTrue), noSchedule(v1.TaintNodeMemoryPressure)), nil, false},
		{"cordoned", cordoned, []v1.Taint{noSchedule(v1.TaintNodeUnschedulable)}, false},
		{"uncordoned", withTaints(node(v1.ConditionTrue), noSchedule(v1.TaintNodeUnschedulable)), nil, false},
		{"foreign taints stay where they are", withTaints(node(v1.ConditionTrue, v1.NodeDiskPressure), foreign, noSchedule(v1.TaintNodeNotReady), prefer),
			[]v1.Taint{foreign, prefer, noSchedule(v1.TaintNodeDiskPressure)}, false},
		{"only foreign taints", withTaints(node(v1.ConditionTrue), foreign), []v1.Taint{foreign}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := Decide(c.node, Heartbeat{}.Observe(c.node, nil, at(0)), at(1))
			if diff := cmp.Diff(c.want, got.Taints, cmpopts.IgnoreFields(v1.Taint{}, "TimeAdded"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
			if got.Retaint == c.kept {
				t.Errorf("to be written: %v", got.Retaint)
			}
			if got.Lost() || got.Conditions != nil || got.PodsNotReady {
				t.Errorf("a node that was just heard of: %+v", got)
			}
		})
	}
}

func TestTaintsRememberWhenTheyWereAdded(t *testing.T) {
	old := metav1.NewTime(at(-100))
	known := noExecute(v1.TaintNodeNotReady)
	known.TimeAdded = &old
	n := withTaints(node(v1.ConditionFalse), known)
	got := Decide(n, Heartbeat{}.Observe(n, nil, at(0)), at(7))
	added := metav1.NewTime(at(7))
	fresh := noSchedule(v1.TaintNodeNotReady)
	fresh.TimeAdded = &added
	if diff := cmp.Diff([]v1.Taint{known, fresh}, got.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
}

func TestSilence(t *testing.T) {
	cases := []struct {
		name  string
		node  *v1.Node
		now   int
		lost  bool
		code  reason.Code
		next  int // when to look again; zero: not by itself
		asked string
	}{
		{"just heard of", node(v1.ConditionTrue), 0, false, "", 40, ""},
		{"a moment before its time", node(v1.ConditionTrue), 39, false, "", 40, ""},
		{"its time", node(v1.ConditionTrue), 40, true, reason.NodeStatusUnknown, 0, "40s"},
		{"a node that was not ready falls silent too", node(v1.ConditionFalse), 55, true, reason.NodeStatusUnknown, 0, "55s"},
		{"a new node has longer", node(""), 59, false, "", 60, ""},
		{"but not for ever", node(""), 60, true, reason.NodeStatusNeverUpdated, 0, "1m0s"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := Decide(c.node, Heartbeat{}.Observe(c.node, nil, at(0)), at(c.now))
			if got.Lost() != c.lost || got.PodsNotReady != c.lost {
				t.Fatalf("lost %v, its Pods not ready %v", got.Lost(), got.PodsNotReady)
			}
			var next time.Time
			if c.next > 0 {
				next = at(c.next)
			}
			if !got.Next.Equal(next) {
				t.Errorf("looks again at %v, want %v", got.Next, next)
			}
			if c.lost && (got.Reasons[0].Code != c.code || got.Reasons[0].Asked != c.asked || got.Reasons[0].Remedy() == "") {
				t.Errorf("reason: %+v", got.Reasons[0])
			}
		})
	}
}

func TestConditionsOfASilentNode(t *testing.T) {
	n := node(v1.ConditionTrue, v1.NodeDiskPressure, v1.NodeNetworkUnavailable, "example.com/Mine")
	beat := Heartbeat{}.Observe(n, nil, at(0))
	got := Decide(n, beat, at(50)).Conditions
	stopped := func(kind v1.NodeConditionType, heartbeat metav1.Time) v1.NodeCondition {
		return v1.NodeCondition{Type: kind, Status: v1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status.",
			LastHeartbeatTime: heartbeat, LastTransitionTime: metav1.NewTime(at(50))}
	}
	never := func(kind v1.NodeConditionType) v1.NodeCondition {
		return v1.NodeCondition{Type: kind, Status: v1.ConditionUnknown, Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
			LastHeartbeatTime: n.CreationTimestamp, LastTransitionTime: metav1.NewTime(at(50))}
	}
	want := []v1.NodeCondition{
		stopped(v1.NodeReady, metav1.NewTime(start)), stopped(v1.NodeDiskPressure, metav1.Time{}),
		{Type: v1.NodeNetworkUnavailable, Status: v1.ConditionTrue}, {Type: "example.com/Mine", Status: v1.ConditionTrue},
		never(v1.NodeMemoryPressure), never(v1.NodePIDPressure),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	n.Status.Conditions = got
	if again := Decide(n, beat.Observe(n, nil, at(40)).Observe(n, nil, at(60)), at(60)); again.Conditions != nil || !again.Lost() {
		t.Errorf("the verdict is written again: %+v", again)
	}
}

func TestSignsOfLife(t *testing.T) {
	n := node(v1.ConditionTrue)
	first := Heartbeat{}.Observe(n, lease(at(-1000), 40), at(0))
	posted := node(v1.ConditionTrue)
	posted.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(at(-500))
	cases := []struct {
		name string
		beat Heartbeat
		lost int // when it is lost
	}{
		{"the first look, at a lease long out of date", first, 40},
		{"nothing new", first.Observe(n, lease(at(-1000), 40), at(30)), 40},
		{"a renewal, by a clock that is far behind", first.Observe(n, lease(at(-990), 40), at(30)), 70},
		{"a renewal, by a clock that is far ahead", first.Observe(n, lease(at(9000), 40), at(30)), 70},
		{"an older renewal is old news", first.Observe(n, lease(at(-2000), 40), at(30)), 40},
		{"the lease is gone", first.Observe(n, nil, at(30)), 40},
		{"a status, though the lease is not renewed", first.Observe(posted, lease(at(-1000), 40), at(30)), 70},
		{"a look that comes in time", first.Observe(n, lease(at(-1000), 40), at(45)), 40},
		{"a look that comes much too late", first.Observe(n, lease(at(-1000), 40), at(46)), 86},
		{"the server could not be asked until now", first.Excuse(at(30)), 70},
		{"a lease that allows more", first.Observe(n, lease(at(-990), 100), at(30)), 130},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if Decide(n, c.beat, at(c.lost-1)).Lost() {
				t.Errorf("lost before %d s", c.lost)
			}
			if !Decide(n, c.beat, at(c.lost)).Lost() {
				t.Errorf("not lost at %d s", c.lost)
			}
		})
	}
}

// TestLostNodesStayLost: looks are rare once a node is lost, which is no excuse.
func TestLostNodesStayLost(t *testing.T) {
	n := node(v1.ConditionUnknown)
	beat := Heartbeat{}.Observe(n, nil, at(0)).Observe(n, nil, at(40))
	if beat = beat.Observe(n, nil, at(4000)); !Decide(n, beat, at(4000)).Lost() {
		t.Error("a lost node is taken for one that has just been heard of")
	}
}

// TestDecisionIsAFixedPoint: what was decided and written asks for no second
// write, and leaves what others own alone.
func TestDecisionIsAFixedPoint(t *testing.T) {
	statuses := []v1.ConditionStatus{"", v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown}
	kinds := []v1.NodeConditionType{v1.NodeReady, v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure, v1.NodeNetworkUnavailable, "example.com/Mine"}
	taintKeys := []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable, v1.TaintNodeMemoryPressure, v1.TaintNodeUnschedulable, "example.com/mine"}
	effects := []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule}
	rapid.Check(t, func(t *rapid.T) {
		n := node("")
		n.Spec.Unschedulable = rapid.Bool().Draw(t, "cordoned")
		for _, kind := range kinds {
			if status := rapid.SampledFrom(statuses).Draw(t, string(kind)); status != "" {
				n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{Type: kind, Status: status})
			}
		}
		for _, key := range taintKeys {
			for _, effect := range effects {
				if rapid.Bool().Draw(t, key) {
					n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Effect: effect})
				}
			}
		}
		now := at(rapid.IntRange(0, 100).Draw(t, "now"))
		beat := Heartbeat{}.Observe(n, nil, at(0))
		before := n.DeepCopy()
		first := Decide(n, beat, now)
		if diff := cmp.Diff(before, n); diff != "" {
			t.Fatalf("deciding changed the node:\n%s", diff)
		}
		after := n.DeepCopy()
		after.Spec.Taints = first.Taints
		if first.Conditions != nil {
			after.Status.Conditions = first.Conditions
		}
		if again := Decide(after, beat, now); again.Retaint || again.Conditions != nil || again.Lost() != first.Lost() {
			t.Fatalf("decided again: %+v", again)
		}
		foreign := func(taints []v1.Taint) (kept []string) {
			for i := range taints {
				if !owned(&taints[i]) {
					kept = append(kept, taints[i].ToString())
				}
			}
			return kept
		}
		if diff := cmp.Diff(foreign(n.Spec.Taints), foreign(after.Spec.Taints)); diff != "" {
			t.Fatalf("foreign taints (-before +after):\n%s", diff)
		}
		mine := func(n *v1.Node) *v1.NodeCondition { return condition(n, "example.com/Mine") }
		if diff := cmp.Diff(mine(n), mine(after)); diff != "" {
			t.Fatalf("a foreign condition (-before +after):\n%s", diff)
		}
	})
}
