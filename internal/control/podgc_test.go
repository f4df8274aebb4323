package control

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

var podgcOnly = []loop{{"podgc", setPodGC}}

func (w *world) there(name string) bool {
	w.Helper()
	_, err := w.client.CoreV1().Pods("default").Get(w.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.Fatalf("reading Pod %s: %v", name, err)
	}
	return err == nil
}

func (w *world) deleteNode(name string) {
	w.Helper()
	if err := w.client.CoreV1().Nodes().Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.Fatalf("deleting node %s: %v", name, err)
	}
}

func leaving(pod *v1.Pod) {
	now := metav1.Now()
	pod.DeletionTimestamp, pod.Finalizers = &now, []string{"example.com/hold"}
}

// lastStatus keeps the last status written of each Pod, since the Pod itself is gone.
func (w *world) lastStatus() map[string]v1.PodStatus {
	last := map[string]v1.PodStatus{}
	for _, action := range w.client.Actions() {
		if update, ok := action.(clienttesting.UpdateAction); ok && action.GetSubresource() == "status" {
			if pod, ok := update.GetObject().(*v1.Pod); ok {
				last[pod.Name] = pod.Status
			}
		}
	}
	return last
}

func TestPodsOfADeletedNodeGoAfterTheQuarantine(t *testing.T) {
	objects := []runtime.Object{
		worldNode("a"), worldNode("b"), worldPod("on-a", "1", readyOn("a")), worldPod("on-b", "1", readyOn("b")),
		worldPod("done", "1", onNode("a"), func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }),
	}
	inWorld(t, podgcOnly, objects, func(w *world) {
		w.deleteNode("a")
		w.pass(39 * time.Second)
		if !w.there("on-a") {
			t.Fatal("the Pod went before the quarantine had ended")
		}
		w.pass(2 * time.Second)
		for name, want := range map[string]bool{"on-a": false, "done": false, "on-b": true} {
			if got := w.there(name); got != want {
				t.Errorf("%s is there: %v, want %v", name, got, want)
			}
		}
		status := w.lastStatus()
		disrupted := podCondition(&v1.Pod{Status: status["on-a"]}, v1.DisruptionTarget)
		if status["on-a"].Phase != v1.PodFailed || disrupted.Reason != "DeletionByPodGC" || disrupted.Status != v1.ConditionTrue {
			t.Errorf("what was said on the Pod: %s, %+v", status["on-a"].Phase, disrupted)
		}
		if _, written := status["done"]; written {
			t.Error("a Pod that had ended was marked as failed")
		}
	})
}

func TestPodsStayWhenTheirNodeComesBackInTime(t *testing.T) {
	inWorld(t, podgcOnly, []runtime.Object{worldNode("a"), worldPod("on-a", "1", readyOn("a"))}, func(w *world) {
		for range 2 {
			w.deleteNode("a")
			w.pass(30 * time.Second)
			if _, err := w.client.CoreV1().Nodes().Create(t.Context(), worldNode("a"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			w.pass(5 * time.Minute)
			if !w.there("on-a") {
				t.Fatal("the Pod went although its node is back")
			}
		}
	})
}

func TestPodBoundToANodeThatNeverWas(t *testing.T) {
	inWorld(t, podgcOnly, []runtime.Object{worldPod("lost", "1", onNode("nowhere"))}, func(w *world) {
		w.pass(30 * time.Second)
		if !w.there("lost") {
			t.Fatal("the Pod went before the quarantine had ended")
		}
		w.pass(15 * time.Second)
		if w.there("lost") {
			t.Error("the Pod stays on a node that does not exist")
		}
	})
}

func TestTerminatingPodsThatNobodyEnds(t *testing.T) {
	outOfService := func(ready v1.ConditionStatus) func(*v1.Node) {
		return func(n *v1.Node) {
			n.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: v1.TaintEffectNoExecute}}
			n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}}
		}
	}
	objects := []runtime.Object{
		worldNode("off", outOfService(v1.ConditionUnknown)), worldNode("on", outOfService(v1.ConditionTrue)), worldNode("well"),
		worldPod("unbound", "1", leaving), worldPod("on-off", "1", onNode("off"), leaving),
		worldPod("stays-off", "1", onNode("off")), worldPod("on-on", "1", onNode("on"), leaving),
		worldPod("on-well", "1", onNode("well"), leaving),
	}
	inWorld(t, podgcOnly, objects, func(w *world) {
		w.pass(time.Minute)
		deleted := map[string]bool{}
		for _, action := range w.client.Actions() {
			if del, ok := action.(clienttesting.DeleteActionImpl); ok {
				deleted[del.Name] = true
				if grace := del.DeleteOptions.GracePeriodSeconds; grace == nil || *grace != 0 {
					t.Errorf("%s was deleted with grace", del.Name)
				}
				if uid := del.DeleteOptions.Preconditions; uid == nil || uid.UID == nil || *uid.UID != types.UID("uid-"+del.Name) {
					t.Errorf("%s was deleted without its UID", del.Name)
				}
			}
		}
		for name, want := range map[string]bool{"unbound": true, "on-off": true, "stays-off": false, "on-on": false, "on-well": false} {
			if deleted[name] != want {
				t.Errorf("%s was deleted: %v, want %v", name, deleted[name], want)
			}
		}
	})
}

func TestOldestEndedPodsGoAboveTheThreshold(t *testing.T) {
	few := []loop{{"podgc", func(ctx context.Context, s *shared) (func(context.Context) error, error) {
		return setPodGCKeeping(ctx, s, 3)
	}}}
	objects := []runtime.Object{worldNode("a"), worldPod("running", "1", readyOn("a"))}
	for i := range 5 {
		objects = append(objects, worldPod(fmt.Sprintf("ended-%d", i), "1", onNode("a"), func(p *v1.Pod) {
			p.Status.Phase = v1.PodFailed
			p.CreationTimestamp = metav1.NewTime(time.Date(2000, 1, 1, 0, i, 0, 0, time.UTC))
		}))
	}
	inWorld(t, few, objects, func(w *world) {
		w.pass(time.Minute)
		for name, want := range map[string]bool{"ended-0": false, "ended-1": false, "ended-2": true, "ended-3": true, "ended-4": true, "running": true} {
			if got := w.there(name); got != want {
				t.Errorf("%s is there: %v, want %v", name, got, want)
			}
		}
	})
}
