package daemonset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/daemonset"
	"muster.dev/muster/internal/reason"
	"muster.dev/muster/internal/testkit/build"
)

// push decides and applies some rounds while no Pod of the new image ever serves.
func (f *fleet) push(rounds int) {
	for range rounds {
		f.apply(f.decide())
		f.gone()
	}
}

func codes(reasons []reason.Reason) []reason.Code {
	var all []reason.Code
	for _, each := range reasons {
		all = append(all, each.Code)
	}
	return all
}

func TestC1BadUpdatesInARowLeaveTheHealthyPods(t *testing.T) {
	f := running(t, build.DaemonSet("logd"), "a", "b", "c")
	for _, image := range []string{"daemon:v2", "daemon:v3", "daemon:v4"} {
		f.template(build.Image(image))
		f.push(10)
	}
	expectShow(t, f, "a=v4! b=v1 c=v1")
	if f.set.Status.NumberUnavailable != 1 || f.set.Status.UpdatedNumberScheduled != 1 {
		t.Errorf("status %+v, should say one unavailable, one updated", f.set.Status)
	}
	plan := f.decide()
	if len(plan.Reasons) != 1 || plan.Reasons[0].Text() != "the update waits: 1 Pod(s) unavailable, maxUnavailable is 1: a" {
		t.Errorf("the reasons are %q, should name the node that holds the update", plan.Reasons)
	}
	// One command takes it back, and the broken Pod goes first.
	f.template(build.Image("daemon:v1"))
	if got := deletions(f.decide()); !slices.Equal(got, []string{"a OutdatedBrokenPod"}) {
		t.Errorf("going back deletes %q, should delete the broken Pod alone", got)
	}
	if !f.settle(true) {
		t.Error("going back does not come to rest")
	}
	expectShow(t, f, "a=v1 b=v1 c=v1")
}

func TestC3AnOutageInMidRolloutDoesNotRestartEverything(t *testing.T) {
	f := running(t, build.DaemonSet("logd"), "a", "b", "c", "d", "e")
	for _, pod := range f.sorted() {
		f.change(pod.Name, build.Unready)
	}
	f.template(build.Image("daemon:v2"))
	f.push(10)
	expectShow(t, f, "a=v2! b=v1! c=v1! d=v1! e=v1!")
}

func TestC5TerminatingOnADeadNodeLeavesTheRestOfTheBudget(t *testing.T) {
	nodes := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	f := running(t, build.DaemonSet("logd", build.Budget("20%", "0")), nodes...)
	dead := f.on("d").Name
	f.change(dead, build.Unready)
	f.template(build.Image("daemon:v2"))
	for range 30 {
		f.apply(f.decide())
		stuck := f.pods[dead]
		f.gone()
		f.pods[dead] = stuck // nobody confirms this deletion
		for _, pod := range f.sorted() {
			if pod.Name != dead {
				f.change(pod.Name, func(pod *v1.Pod) { build.SetReady(pod, f.now) })
			}
		}
	}
	expectShow(t, f, "a=v2 b=v2 c=v2 d=v1!~ e=v2 f=v2 g=v2 h=v2 i=v2 j=v2")
}

// lose makes a node what a dead one becomes: tainted, its Pod not Ready.
func (f *fleet) lose(name string) {
	node := f.nodes[name].DeepCopy()
	build.Tainted(v1.TaintNodeUnreachable + ":NoSchedule")(node)
	build.Tainted(v1.TaintNodeUnreachable + ":NoExecute")(node)
	f.nodes[name] = node
	f.change(f.on(name).Name, build.Unready)
}

func TestC7DeadNodesHoldADefaultRolloutAndAreNamed(t *testing.T) {
	var nodes []string
	for i := range 20 {
		nodes = append(nodes, fmt.Sprintf("n%02d", i))
	}
	f := running(t, build.DaemonSet("logd"), nodes...)
	f.lose("n03")
	f.lose("n11")
	f.template(build.Image("daemon:v2"))
	plan := f.decide()
	if len(plan.Delete) != 0 || len(plan.Reasons) != 1 {
		t.Fatalf("the rollout goes on with %q, for %q; should hold", deletions(plan), plan.Reasons)
	}
	if got := plan.Reasons[0]; got.Code != reason.RolloutHeld || got.Object != "n03, n11" || got.Count != 2 || got.Asked != "1" {
		t.Errorf("held by %+v, should name n03 and n11", got)
	}
	f.template(build.Budget("20%", "0"))
	f.settle(true)
	if status := f.set.Status; status.UpdatedNumberScheduled != 18 || status.DesiredNumberScheduled != 18 || status.NumberMisscheduled != 2 {
		t.Errorf("with 20%% the status is %+v, should be done for the 18", status)
	}
}

func TestC4ANodeThatDiesUnderUpdateHoldsUntilItIsDeleted(t *testing.T) {
	f := running(t, build.DaemonSet("logd"), "a", "b", "c")
	f.template(build.Image("daemon:v2"))
	f.push(2)
	f.lose("a")
	f.push(5)
	expectShow(t, f, "a=v2! b=v1 c=v1")
	delete(f.nodes, "a")
	f.settle(true)
	delete(f.pods, f.on("a").Name)
	expectShow(t, f, "b=v2 c=v2")
}

func TestOneDeadNodeDoesNotKeepABadUpdateFromBeingMended(t *testing.T) {
	f := running(t, build.DaemonSet("logd"), "a", "b", "c")
	f.template(build.Image("daemon:v2"))
	f.push(2)
	f.lose("c")
	f.template(build.Image("daemon:v3"))
	f.push(5)
	expectShow(t, f, "a=v3! b=v1 c=v1!")
}

func TestAReadyPodIsSafeBeforeItIsAvailable(t *testing.T) {
	slow := func(set *appsv1.DaemonSet) { set.Spec.MinReadySeconds = 60 }
	f := newFleet(build.DaemonSet("logd", slow, build.Budget("2", "0")), "a", "b", "c", "d")
	f.push(1)
	f.serve() // Ready, and not available for a minute
	f.template(build.Image("daemon:v2"))
	if plan := f.decide(); len(plan.Delete) != 0 {
		t.Errorf("Ready Pods beyond the budget are deleted because they are not available yet: %q", deletions(plan))
	}
	f.now = f.now.Add(time.Minute)
	if plan := f.decide(); len(plan.Delete) != 2 {
		t.Errorf("once available %d are deleted, should be 2", len(plan.Delete))
	}
}

func TestC10AvailableFollowsReadyByTimeAlone(t *testing.T) {
	f := newFleet(build.DaemonSet("logd", func(set *appsv1.DaemonSet) { set.Spec.MinReadySeconds = 10 }), "a")
	f.push(1)
	skewed := f.now.Add(3 * time.Second) // the node's clock goes before
	f.change(f.on("a").Name, func(pod *v1.Pod) { build.SetReady(pod, skewed) })
	plan := f.decide()
	if want := f.now.Add(13 * time.Second); plan.Status.NumberReady != 1 || plan.Status.NumberAvailable != 0 || !plan.Next.Equal(want) {
		t.Errorf("ready %d, available %d, next look at %v; should be 1, 0, %v", plan.Status.NumberReady, plan.Status.NumberAvailable, plan.Next, want)
	}
	f.now = plan.Next
	if plan := f.decide(); plan.Status.NumberAvailable != 1 || !plan.Next.IsZero() {
		t.Errorf("available %d and next look at %v, should be 1 and none", plan.Status.NumberAvailable, plan.Next)
	}
}

func TestC19OnDeleteWaitsForTheUser(t *testing.T) {
	f := running(t, build.DaemonSet("logd", onDelete), "a", "b")
	f.template(build.Image("daemon:v2"))
	f.push(3)
	expectShow(t, f, "a=v1 b=v1")
	pod := f.on("b")
	f.delete(pod.Name, pod.UID)
	f.gone()
	f.settle(true)
	expectShow(t, f, "a=v1 b=v2")
	if got := f.set.Status.UpdatedNumberScheduled; got != 1 {
		t.Errorf("%d updated, should be the recreated one", got)
	}
}

func TestC8TheDefaultBudgetIsOne(t *testing.T) {
	bare := func(set *appsv1.DaemonSet) { set.Spec.UpdateStrategy.RollingUpdate = nil }
	f := running(t, build.DaemonSet("logd", bare), "a", "b", "c")
	f.template(build.Image("daemon:v2"))
	if plan := f.decide(); len(plan.Delete) != 1 {
		t.Errorf("%d Pods are deleted at once, should be one", len(plan.Delete))
	}
}

func TestPercentagesRoundUp(t *testing.T) {
	f := running(t, build.DaemonSet("logd", build.Budget("34%", "0")), "a", "b", "c")
	f.template(build.Image("daemon:v2"))
	if plan := f.decide(); len(plan.Delete) != 2 {
		t.Errorf("34%% of three nodes deletes %d, should be 2", len(plan.Delete))
	}
}

func TestNodesAreServedByPoolAndName(t *testing.T) {
	f := running(t, build.DaemonSet("logd", build.Budget("3", "0")), "a", "b", "c", "d")
	for node, pool := range map[string]string{"a": "2", "b": "1", "c": "2", "d": "1"} {
		build.Labelled("karpenter.sh/nodepool=" + pool)(f.nodes[node])
	}
	f.change(f.on("c").Name, build.Unready)
	f.template(build.Image("daemon:v2"))
	want := []string{"c OutdatedBrokenPod", "b OutdatedPod", "d OutdatedPod"}
	if got := deletions(f.decide()); !slices.Equal(got, want) {
		t.Errorf("deleted in the order %q, should be %q", got, want)
	}
}

func TestSurgeKeepsTheOldPodUntilTheNewIsAvailable(t *testing.T) {
	f := running(t, build.DaemonSet("logd", build.Budget("0", "1")), "a", "b", "c")
	f.template(build.Image("daemon:v2"))
	f.push(5)
	expectShow(t, f, "a=v1+v2! b=v1 c=v1")
	if plan := f.decide(); !slices.Equal(codes(plan.Reasons), []reason.Code{reason.SurgeHeld}) || plan.Reasons[0].Object != "a" {
		t.Errorf("the reasons are %v, should say that a holds the surge", plan.Reasons)
	}
	if f.set.Status.NumberAvailable != 3 || f.set.Status.UpdatedNumberScheduled != 0 {
		t.Errorf("status %+v, should say three available, none updated", f.set.Status)
	}
	f.serve()
	f.apply(f.decide())
	expectShow(t, f, "a=v1~+v2 b=v1 c=v1")
	if plan := f.decide(); len(plan.Create) != 0 {
		t.Error("the next node gets its second Pod while the first still has two")
	}
	f.settle(true)
	expectShow(t, f, "a=v2 b=v2 c=v2")
}

func TestSurgeGivesUpABrokenOldPodForItsSuccessor(t *testing.T) {
	f := running(t, build.DaemonSet("logd", build.Budget("0", "1")), "a", "b")
	f.change(f.on("b").Name, build.Unready)
	f.template(build.Image("daemon:v2"))
	f.apply(f.decide())
	expectShow(t, f, "a=v1 b=v1!+v2!")
	f.apply(f.decide())
	expectShow(t, f, "a=v1 b=v1!~+v2!")
}

func TestC14SurgeWithAHostPortIsWarnedOf(t *testing.T) {
	port := func(set *appsv1.DaemonSet) {
		set.Spec.Template.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 9100, ContainerPort: 9100}}
	}
	for surge, want := range map[string]bool{"1": true, "0": false} {
		unavailable := map[string]string{"1": "0", "0": "1"}[surge]
		f := newFleet(build.DaemonSet("logd", port, build.Budget(unavailable, surge)), "a")
		if got := slices.Contains(codes(f.decide().Reasons), reason.HostPortSurge); got != want {
			t.Errorf("maxSurge %s: warned %v, should be %v", surge, got, want)
		}
	}
}

func TestC84MoreLooksDoNotSpendMoreBudget(t *testing.T) {
	f := running(t, build.DaemonSet("logd"), "a", "b", "c")
	f.template(build.Image("daemon:v2"))
	stale := f.decide()
	f.apply(stale)
	for range 20 {
		f.apply(f.decide())
		f.apply(stale) // decided before, carried out again
	}
	expectShow(t, f, "a=v1~ b=v1 c=v1")
}

func TestStatusCountsEveryNodeOnce(t *testing.T) {
	f := running(t, build.DaemonSet("logd"), "a", "b", "c", "d")
	build.Tainted("new:NoSchedule")(f.nodes["d"]) // its Pod stays, misscheduled
	f.change(f.on("b").Name, build.Unready)
	f.set.Generation = 7
	got := f.decide().Status
	want := appsv1.DaemonSetStatus{
		ObservedGeneration: 7, DesiredNumberScheduled: 3, CurrentNumberScheduled: 3, NumberMisscheduled: 1,
		NumberReady: 2, UpdatedNumberScheduled: 3, NumberAvailable: 2, NumberUnavailable: 1,
	}
	if got.ObservedGeneration != want.ObservedGeneration || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("status is\n%+v, should be\n%+v", got, want)
	}
}

func TestAHoldIsToldOnceItLasts(t *testing.T) {
	f := running(t, build.DaemonSet("logd"), "a", "b")
	foreign := appsv1.DaemonSetCondition{Type: "Theirs", Status: v1.ConditionTrue}
	f.set.Status.Conditions = []appsv1.DaemonSetCondition{foreign}
	f.template(build.Image("daemon:v2"))
	f.push(3)
	plan := f.decide()
	if daemonset.HeldBy(plan.Status) != "" || plan.Next.IsZero() {
		t.Fatalf("an update that has just begun is told as held: %+v, next look at %v", plan.Status.Conditions, plan.Next)
	}
	f.now = plan.Next
	f.apply(f.decide())
	told := f.now
	f.now = f.now.Add(time.Hour)
	f.apply(f.decide())
	conditions := f.set.Status.Conditions
	if len(conditions) != 2 || conditions[0] != foreign {
		t.Fatalf("conditions are %+v, should be theirs and one more", conditions)
	}
	if got := conditions[1]; got.Type != daemonset.RolloutHeld || !strings.HasSuffix(got.Message, "maxUnavailable is 1: a") || !got.LastTransitionTime.Time.Equal(told) {
		t.Errorf("the condition is %+v, should name node a, since %v", got, told)
	}
	f.serve()
	f.settle(true)
	if got := f.set.Status.Conditions; len(got) != 1 || got[0] != foreign {
		t.Errorf("when the update is through the conditions are %+v", got)
	}
}

func TestAStatusGoesOntoANewerOne(t *testing.T) {
	held := appsv1.DaemonSetCondition{Type: daemonset.RolloutHeld, Message: "new"}
	theirs := appsv1.DaemonSetCondition{Type: "Theirs"}
	newer := appsv1.DaemonSetStatus{
		NumberReady: 1, CollisionCount: new(int32(3)),
		Conditions: []appsv1.DaemonSetCondition{{Type: daemonset.RolloutHeld, Message: "old"}, theirs},
	}
	got := daemonset.Onto(newer, appsv1.DaemonSetStatus{NumberReady: 5, Conditions: []appsv1.DaemonSetCondition{held}})
	if got.NumberReady != 5 || *got.CollisionCount != 3 || !slices.Equal(got.Conditions, []appsv1.DaemonSetCondition{theirs, held}) {
		t.Errorf("the status is %+v", got)
	}
}
