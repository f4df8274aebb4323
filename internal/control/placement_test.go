package control

import (
	"errors"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

var placementOnly = []loop{{"ledger", setLedger}, {"placement", setPlacement}}

func TestUnboundPodsAreBoundWhereTheyFit(t *testing.T) {
	objects := []runtime.Object{
		worldNode("a"), worldNode("b"), worldPod("filler", "3", onNode("a")),
		worldPod("plain", "2"),
		worldPod("foreign", "1", func(p *v1.Pod) { p.Spec.SchedulerName = "other" }),
		worldPod("gated", "1", func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}} }),
	}
	inWorld(t, placementOnly, objects, func(w *world) {
		if got := w.pod("plain").Spec.NodeName; got != "b" {
			t.Errorf("plain is on %q, want b: a has one CPU left", got)
		}
		for _, name := range []string{"foreign", "gated"} {
			if pod := w.pod(name); pod.Spec.NodeName != "" || len(pod.Status.Conditions) > 0 {
				t.Errorf("%s was touched: node %q, conditions %v", name, pod.Spec.NodeName, pod.Status.Conditions)
			}
		}
		if got := w.messages("Scheduled", "plain"); !slices.Equal(got, []string{"Successfully assigned default/plain to b"}) {
			t.Errorf("events: %q", got)
		}
	})
}

func TestPodThatFitsNowhereSaysWhyOnceAndIsPlacedWhenRoomAppears(t *testing.T) {
	objects := []runtime.Object{
		worldNode("a"), worldNode("b", func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoSchedule}} }),
		worldPod("filler", "3", onNode("a")), worldPod("other", "500m", onNode("a")), worldPod("big", "2"),
	}
	inWorld(t, placementOnly, objects, func(w *world) {
		const want = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {k: v}."
		condition := podCondition(w.pod("big"), v1.PodScheduled)
		if condition.Status != v1.ConditionFalse || condition.Reason != "Unschedulable" || condition.Message != want {
			t.Errorf("condition: %+v", condition)
		}
		w.deletePod("other") // frees too little
		w.settle()
		w.pass(10 * time.Minute)
		if got := w.messages("FailedScheduling", "big"); !slices.Equal(got, []string{want}) {
			t.Errorf("events: %q, want one", got)
		}
		if writes := w.writes("update", "pods", "status"); writes != 1 {
			t.Errorf("the Pod's status was written %d times, want once", writes)
		}
		w.deletePod("filler")
		w.settle()
		if got := w.pod("big").Spec.NodeName; got != "a" {
			t.Errorf("big is on %q after room appeared on a", got)
		}
	})
}

func TestMoreImportantPodsGoFirst(t *testing.T) {
	important := int32(1000)
	objects := []runtime.Object{
		worldNode("a"), worldPod("filler", "4", onNode("a")),
		worldPod("aaa", "3"), worldPod("zzz", "3", func(p *v1.Pod) { p.Spec.Priority = &important }),
	}
	inWorld(t, placementOnly, objects, func(w *world) {
		w.deletePod("filler")
		w.settle()
		if got := w.pod("zzz").Spec.NodeName; got != "a" {
			t.Errorf("the important Pod is on %q", got)
		}
		if got := w.pod("aaa").Spec.NodeName; got != "" {
			t.Errorf("the other Pod is on %q, where there is no room left", got)
		}
	})
}

func TestFailedBindingGivesTheRoomBackAndIsTriedAgain(t *testing.T) {
	inWorld(t, placementOnly, []runtime.Object{worldNode("a")}, func(w *world) {
		failures := 0
		w.whenAsked(func(action clienttesting.Action) error {
			if action.GetSubresource() != "binding" || failures == 2 {
				return nil
			}
			failures++
			return errors.New("the server is busy")
		})
		w.createPod(worldPod("whole", "4"))
		w.settle()
		if got := w.pod("whole").Spec.NodeName; got != "a" || failures != 2 {
			t.Errorf("the Pod is on %q after %d failed bindings", got, failures)
		}
	})
}

func TestEndedPodsFreeTheirRoomAndTerminatingPodsHoldIt(t *testing.T) {
	now := metav1.Now()
	objects := []runtime.Object{
		worldNode("a"), worldNode("b"),
		worldPod("ended", "4", onNode("a")),
		worldPod("leaving", "4", onNode("b"), func(p *v1.Pod) { p.DeletionTimestamp, p.Finalizers = &now, []string{"x/y"} }),
		worldPod("first", "4"), worldPod("second", "4"),
	}
	inWorld(t, placementOnly, objects, func(w *world) {
		for _, name := range []string{"first", "second"} {
			if got := w.pod(name).Spec.NodeName; got != "" {
				t.Fatalf("%s is on %s, which is full", name, got)
			}
		}
		ended := w.pod("ended").DeepCopy()
		ended.Status.Phase = v1.PodSucceeded
		if _, err := w.client.CoreV1().Pods("default").UpdateStatus(t.Context(), ended, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		on := []string{w.pod("first").Spec.NodeName, w.pod("second").Spec.NodeName}
		slices.Sort(on)
		if !slices.Equal(on, []string{"", "a"}) {
			t.Errorf("the Pods are on %q, want one on a and one waiting", on)
		}
	})
}
