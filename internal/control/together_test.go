package control

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"muster.dev/muster/internal/testkit/build"
)

// The daemon and placement loops over one ledger.
var together = append(slices.Clone(daemonLoops), loop{"placement", setPlacement})

// onlyDaemon is the one Pod of a set.
func (w *world) onlyDaemon(set string) *v1.Pod {
	w.Helper()
	list, err := w.client.CoreV1().Pods("default").List(w.Context(), metav1.ListOptions{LabelSelector: "app=" + set})
	if err != nil || len(list.Items) != 1 {
		w.Fatalf("Pods of %s: %v, %v", set, list, err)
	}
	return &list.Items[0]
}

func TestC31DaemonWithoutRoomWaitsInTheOpenUntilThereIsSome(t *testing.T) {
	set := build.DaemonSet("logd", func(set *appsv1.DaemonSet) {
		set.Spec.Template.Spec.Containers[0].Resources = worldPod("x", "1").Spec.Containers[0].Resources
		set.Spec.Template.Spec.SchedulerName = v1.DefaultSchedulerName
	})
	objects := []runtime.Object{set, worldNode("a"), worldNode("b", func(n *v1.Node) { n.Spec.Unschedulable = true }), worldPod("filler", "4", onNode("a"))}
	set.Spec.Template.Spec.NodeSelector = map[string]string{v1.LabelHostname: "a"}
	inWorld(t, together, objects, func(w *world) {
		waiting := w.onlyDaemon("logd")
		const want = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector."
		if got := podCondition(waiting, v1.PodScheduled); waiting.Spec.NodeName != "" || got.Reason != "Unschedulable" || got.Message != want {
			t.Errorf("the Pod is on %q and says %+v", waiting.Spec.NodeName, got)
		}
		if got := w.set("logd").Status.DesiredNumberScheduled; got != 1 {
			t.Errorf("%d Pods are desired", got)
		}
		w.deletePod("filler")
		w.settle()
		placed := w.onlyDaemon("logd")
		if placed.Spec.NodeName != "a" || placed.UID != waiting.UID {
			t.Errorf("the Pod is on %q once there is room; it is the same: %v", placed.Spec.NodeName, placed.UID == waiting.UID)
		}
	})
}

func TestC39DaemonThatAvoidsItsNeighbourSaysSo(t *testing.T) {
	set := build.DaemonSet("logd", func(set *appsv1.DaemonSet) {
		set.Spec.Template.Spec.SchedulerName = v1.DefaultSchedulerName
		set.Spec.Template.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, TopologyKey: v1.LabelHostname,
		}}}}
	})
	db := worldPod("db", "1", onNode("a"), func(p *v1.Pod) { p.Labels = map[string]string{"app": "db"} })
	inWorld(t, together, []runtime.Object{set, worldNode("a"), db}, func(w *world) {
		const want = "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
		if got := podCondition(w.onlyDaemon("logd"), v1.PodScheduled).Message; got != want {
			t.Errorf("the daemon's Pod says %q", got)
		}
		w.deletePod("db")
		w.settle()
		if got := w.onlyDaemon("logd").Spec.NodeName; got != "a" {
			t.Errorf("the daemon's Pod is on %q once its neighbour is gone", got)
		}
	})
}

func TestDaemonAndPlainPodNeverSpendOneRoomTwice(t *testing.T) {
	set := build.DaemonSet("logd", func(set *appsv1.DaemonSet) {
		set.Spec.Template.Spec.Containers[0].Resources = worldPod("x", "3").Spec.Containers[0].Resources
		set.Spec.Template.Spec.SchedulerName = v1.DefaultSchedulerName
	})
	objects := []runtime.Object{set, worldPod("p1", "3"), worldPod("p2", "3"), worldPod("p3", "3")}
	for _, name := range []string{"a", "b", "c"} {
		objects = append(objects, worldNode(name))
	}
	inWorld(t, together, objects, func(w *world) {
		list, err := w.client.CoreV1().Pods("default").List(w.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		on := map[string]int{}
		for _, pod := range list.Items {
			on[pod.Spec.NodeName]++
		}
		if len(list.Items) != 6 || on["a"] != 1 || on["b"] != 1 || on["c"] != 1 {
			t.Errorf("%d Pods, by node %v; each node has room for one", len(list.Items), on)
		}
	})
}
