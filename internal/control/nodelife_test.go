package control

import (
	"errors"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

var nodelifeOnly = []loop{{"nodelife", setNodelife}}

// renew writes the node's lease, as its agent does.
func (w *world) renew(node string) {
	w.Helper()
	now, seconds := metav1.NowMicro(), int32(40)
	leases := w.client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceNodeLease, Name: node},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &now, LeaseDurationSeconds: &seconds},
	}
	_, err := leases.Update(w.Context(), lease, metav1.UpdateOptions{})
	if err != nil {
		_, err = leases.Create(w.Context(), lease, metav1.CreateOptions{})
	}
	if err != nil {
		w.Fatalf("renewing the lease of %s: %v", node, err)
	}
}

// live renews the leases every ten seconds for a while.
func (w *world) live(d time.Duration, nodes ...string) {
	w.Helper()
	for range d / (10 * time.Second) {
		for _, node := range nodes {
			w.renew(node)
		}
		w.pass(10 * time.Second)
	}
}

func keys(taints []v1.Taint) []string {
	var all []string
	for _, taint := range taints {
		all = append(all, taint.ToString())
	}
	slices.Sort(all)
	return all
}

func readiness(node *v1.Node) v1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c
		}
	}
	return v1.NodeCondition{}
}

func readyOn(node string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.NodeName = node
		pod.Status.Phase = v1.PodRunning
		pod.Status.Conditions = []v1.PodCondition{
			{Type: v1.PodReady, Status: v1.ConditionTrue}, {Type: "example.com/gate", Status: v1.ConditionTrue},
		}
	}
}

func TestSilentNodeIsUnknownAndItsPodsAreNotReady(t *testing.T) {
	foreign := v1.Taint{Key: "example.com/mine", Effect: v1.TaintEffectNoSchedule}
	objects := []runtime.Object{
		worldNode("a", func(n *v1.Node) { n.Spec.Taints = []v1.Taint{foreign} }), worldNode("b"),
		worldPod("on-a", "1", readyOn("a")), worldPod("on-b", "1", readyOn("b")),
	}
	inWorld(t, nodelifeOnly, objects, func(w *world) {
		w.live(3*time.Minute, "a", "b")
		if writes := w.writes("update", "nodes", "") + w.writes("update", "nodes", "status"); writes != 0 {
			t.Fatalf("%d writes to nodes that are well", writes)
		}
		w.live(20*time.Second, "b")
		if got := readiness(w.node("a")).Status; got != v1.ConditionTrue {
			t.Errorf("a is %s after 30 s of silence, before its grace has ended", got)
		}
		w.live(20*time.Second, "b")
		lost := w.node("a")
		ready := readiness(lost)
		if ready.Status != v1.ConditionUnknown || ready.Reason != "NodeStatusUnknown" || ready.Message != "Kubelet stopped posting node status." {
			t.Errorf("the silent node's condition: %+v", ready)
		}
		want := []string{"example.com/mine:NoSchedule", "node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"}
		if got := keys(lost.Spec.Taints); !slices.Equal(got, want) {
			t.Errorf("the silent node's taints: %q", got)
		}
		if got := podCondition(w.pod("on-a"), v1.PodReady).Status; got != v1.ConditionFalse {
			t.Errorf("the Pod on the silent node has Ready=%s", got)
		}
		if got := podCondition(w.pod("on-a"), "example.com/gate").Status; got != v1.ConditionTrue {
			t.Errorf("somebody else's condition is %s", got)
		}
		if got := podCondition(w.pod("on-b"), v1.PodReady).Status; got != v1.ConditionTrue {
			t.Errorf("the Pod on the other node has Ready=%s", got)
		}
		// A Pod that turns Ready in the cache while its node is silent does not stay so.
		late := worldPod("late", "1", readyOn("a"))
		w.createPod(late)
		w.settle()
		if got := podCondition(w.pod("late"), v1.PodReady).Status; got != v1.ConditionFalse {
			t.Errorf("a Pod that came late to the silent node has Ready=%s", got)
		}
		// The node speaks again.
		w.renew("a")
		w.updateNode("a", func(n *v1.Node) {
			n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
		})
		w.settle()
		if got := keys(w.node("a").Spec.Taints); !slices.Equal(got, []string{"example.com/mine:NoSchedule"}) {
			t.Errorf("taints of the node that is back: %q", got)
		}
	})
}

func TestTaintOfANewNodeGoesWhenItIsReady(t *testing.T) {
	notReady := v1.Taint{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule}
	node := worldNode("a", func(n *v1.Node) { n.Spec.Taints, n.Status.Conditions = []v1.Taint{notReady}, nil })
	inWorld(t, append(slices.Clone(placementOnly), nodelifeOnly...), []runtime.Object{node, worldPod("plain", "1")}, func(w *world) {
		if got := w.pod("plain").Spec.NodeName; got != "" {
			t.Fatalf("the Pod is on %q before the node is Ready", got)
		}
		w.updateNode("a", func(n *v1.Node) {
			n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
		})
		w.settle()
		if got := w.node("a").Spec.Taints; len(got) > 0 {
			t.Errorf("taints: %v", got)
		}
		if got := w.pod("plain").Spec.NodeName; got != "a" {
			t.Errorf("the Pod is on %q once the node is Ready", got)
		}
	})
}

func TestServerThatCannotBeAskedCondemnsNoNode(t *testing.T) {
	inWorld(t, nodelifeOnly, []runtime.Object{worldNode("a")}, func(w *world) {
		w.whenAsked(func(action clienttesting.Action) error {
			if action.Matches("get", "leases") {
				return errors.New("the server is busy")
			}
			return nil
		})
		w.pass(5 * time.Minute)
		if got := readiness(w.node("a")).Status; got != v1.ConditionTrue {
			t.Errorf("the node is %s on the word of a failed read", got)
		}
		w.whenAsked(func(clienttesting.Action) error { return nil })
		w.pass(30 * time.Second)
		if got := readiness(w.node("a")).Status; got != v1.ConditionTrue {
			t.Errorf("the node is %s before it could give a sign of life again", got)
		}
		w.pass(time.Minute)
		if got := readiness(w.node("a")).Status; got != v1.ConditionUnknown {
			t.Errorf("the node is %s although it stays silent", got)
		}
	})
}
