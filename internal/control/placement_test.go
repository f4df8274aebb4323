package control

import (
	"errors"
	"fmt"
	"maps"
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

func TestFieldNobodyActsOnIsNamedWithItsRemedy(t *testing.T) {
	claimed := worldPod("claimed", "1", func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
	})
	inWorld(t, placementOnly, []runtime.Object{worldNode("a"), claimed}, func(w *world) {
		const want = "0/1 nodes are available: spec.volumes[0].persistentVolumeClaim (data) is not acted on in this cluster: " +
			"use hostPath, emptyDir, configMap, secret, downwardAPI or projected."
		if got := podCondition(w.pod("claimed"), v1.PodScheduled).Message; got != want {
			t.Errorf("condition: %q", got)
		}
		if got := w.messages("FailedScheduling", "claimed"); !slices.Equal(got, []string{want}) {
			t.Errorf("events: %q", got)
		}
	})
}

func TestC81HostPortIsHeldUntilTheTerminatingPodIsGone(t *testing.T) {
	withHostPort := func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: v1.ProtocolTCP}}
	}
	objects := []runtime.Object{
		worldNode("a"), worldPod("old", "1", onNode("a"), withHostPort, leaving), worldPod("new", "1", withHostPort),
	}
	inWorld(t, placementOnly, objects, func(w *world) {
		const want = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
		if got := podCondition(w.pod("new"), v1.PodScheduled).Message; got != want {
			t.Errorf("condition: %q", got)
		}
		if err := w.client.Tracker().Delete(v1.SchemeGroupVersion.WithResource("pods"), "default", "old"); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if got := w.pod("new").Spec.NodeName; got != "a" {
			t.Errorf("the new Pod is on %q once the old one is gone", got)
		}
	})
}

func TestC46PodWaitsForTheStartupTaintToGo(t *testing.T) {
	startup := v1.Taint{Key: "example.com/daemons-not-ready", Effect: v1.TaintEffectNoSchedule}
	objects := []runtime.Object{
		worldNode("a", func(n *v1.Node) { n.Spec.Taints = []v1.Taint{startup} }),
		worldPod("plain", "1"),
		worldPod("daemon", "1", func(p *v1.Pod) {
			p.Spec.Tolerations = []v1.Toleration{{Key: startup.Key, Operator: v1.TolerationOpExists}}
		}),
	}
	inWorld(t, append(slices.Clone(placementOnly), nodelifeOnly...), objects, func(w *world) {
		if plain, daemon := w.pod("plain").Spec.NodeName, w.pod("daemon").Spec.NodeName; plain != "" || daemon != "a" {
			t.Fatalf("plain is on %q, the daemon that tolerates the taint on %q", plain, daemon)
		}
		w.updateNode("a", func(n *v1.Node) { n.Spec.Taints = nil })
		w.settle()
		if got := w.pod("plain").Spec.NodeName; got != "a" {
			t.Errorf("plain is on %q once the taint is gone", got)
		}
	})
}

func TestPodWaitingForCompanyIsPlacedWhenItComes(t *testing.T) {
	social := worldPod("social", "1", func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, TopologyKey: v1.LabelHostname,
		}}}}
	})
	inWorld(t, placementOnly, []runtime.Object{worldNode("a"), worldNode("b"), social}, func(w *world) {
		if got := w.pod("social").Spec.NodeName; got != "" {
			t.Fatalf("social is on %s, alone", got)
		}
		w.createPod(worldPod("db", "1", onNode("b"), func(p *v1.Pod) { p.Labels = map[string]string{"app": "db"} }))
		w.settle()
		if got := w.pod("social").Spec.NodeName; got != "b" {
			t.Errorf("social is on %q once its company is on b", got)
		}
	})
}

func TestOpenedGateLetsThePodBePlaced(t *testing.T) {
	gated := worldPod("gated", "1", func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}} })
	inWorld(t, placementOnly, []runtime.Object{worldNode("a"), gated}, func(w *world) {
		open := w.pod("gated").DeepCopy()
		open.Spec.SchedulingGates, open.Generation = nil, 2
		if _, err := w.client.CoreV1().Pods("default").Update(t.Context(), open, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if got := w.pod("gated").Spec.NodeName; got != "a" {
			t.Errorf("the Pod is on %q once its gate is open", got)
		}
	})
}

func TestBurstOfPodsFillsNodesAndNoMore(t *testing.T) {
	objects := []runtime.Object{worldNode("a"), worldNode("b"), worldNode("c")}
	for i := range 30 {
		objects = append(objects, worldPod(fmt.Sprintf("p%02d", i), "1"))
	}
	inWorld(t, placementOnly, objects, func(w *world) {
		on := map[string]int{}
		for i := range 30 {
			on[w.pod(fmt.Sprintf("p%02d", i)).Spec.NodeName]++
		}
		if want := map[string]int{"a": 4, "b": 4, "c": 4, "": 18}; !maps.Equal(on, want) {
			t.Errorf("Pods by node: %v", on)
		}
	})
}

func TestWhatAWaitingPodIsToldStaysTrue(t *testing.T) {
	inWorld(t, placementOnly, []runtime.Object{worldPod("big", "9")}, func(w *world) {
		told := func() string { return podCondition(w.pod("big"), v1.PodScheduled).Message }
		if got := told(); got != "no nodes available to schedule pods" {
			t.Errorf("without nodes: %q", got)
		}
		if _, err := w.client.CoreV1().Nodes().Create(t.Context(), worldNode("a"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if got := told(); got != "0/1 nodes are available: 1 Insufficient cpu." {
			t.Errorf("with a node: %q", got)
		}
		w.updateNode("a", func(n *v1.Node) { n.Spec.Unschedulable = true })
		w.pass(6 * time.Minute)
		if got := told(); got != "0/1 nodes are available: 1 node(s) were unschedulable." {
			t.Errorf("with a cordoned node: %q", got)
		}
	})
}
