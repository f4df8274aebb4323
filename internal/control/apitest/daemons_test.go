package apitest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"muster.dev/muster/internal/testkit/build"
)

func all(*v1.Pod) bool { return true }

func good(pod *v1.Pod) bool { return pod.Spec.Containers[0].Image != "daemon:bad" }

func TestARolloutIsCarriedOutHeldAndUndone(t *testing.T) {
	w := newWorld(t)
	w.run()
	w.agents(good)
	for i := range 4 {
		w.join(i)
	}
	w.apply(w.set(func(set *appsv1.DaemonSet) {
		set.Annotations = map[string]string{"kubernetes.io/change-cause": "first"}
	}))
	w.awaitDone(4)
	for _, pod := range w.pods() {
		if pod.Spec.NodeName == "" || pod.Labels["pod-template-generation"] != "1" {
			t.Errorf("Pod %s is on %q with labels %v", pod.Name, pod.Spec.NodeName, pod.Labels)
		}
	}
	w.edit(build.Image("daemon:v2"))
	w.awaitDone(4)
	if got := w.images(); got != "v2=4" {
		t.Errorf("the Pods are %s, should be v2=4", got)
	}
	w.edit(build.Image("daemon:bad"))
	w.await("the update to be held", func() string {
		if s := w.now().Status; s.UpdatedNumberScheduled != 1 || s.NumberUnavailable != 1 || s.NumberReady != 3 {
			return fmt.Sprintf("status %+v", s)
		}
		return ""
	})
	if got := w.images(); got != "bad=1 v2=3" {
		t.Errorf("the Pods are %s, should be bad=1 v2=3", got)
	}
	// What kubectl rollout undo sends: the patch of the last revision but one.
	revisions, err := w.client.AppsV1().ControllerRevisions(w.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=logd"})
	must(t, "listing revisions", err)
	for _, revision := range revisions.Items {
		if revision.Revision == 1 && revision.Annotations["kubernetes.io/change-cause"] != "first" {
			t.Errorf("revision 1 has annotations %v", revision.Annotations)
		}
		if revision.Revision == 2 {
			_, err = w.client.AppsV1().DaemonSets(w.namespace).Patch(t.Context(), "logd", types.StrategicMergePatchType, revision.Data.Raw, metav1.PatchOptions{})
			must(t, "undoing", err)
		}
	}
	w.awaitDone(4)
	if got := w.images(); got != "v2=4" {
		t.Errorf("the Pods are %s, should be v2=4 again", got)
	}
}

func TestC9ABudgetMustMakeSense(t *testing.T) {
	w := newWorld(t)
	for _, row := range []struct {
		unavailable, surge string
		refused            bool
	}{{"1", "1", true}, {"0", "0", true}, {"0", "50%", false}, {"110%", "0", true}} {
		set := w.set(build.Budget(row.unavailable, row.surge))
		set.Name = "budget"
		_, err := w.client.AppsV1().DaemonSets(w.namespace).Create(t.Context(), set, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if refused := apierrors.IsInvalid(err); refused != row.refused || (err != nil && !refused) {
			t.Errorf("maxUnavailable %s with maxSurge %s: %v, should be refused: %v", row.unavailable, row.surge, err, row.refused)
		}
	}
}

func TestC21ATakenRevisionNameIsCountedOnce(t *testing.T) {
	w := newWorld(t)
	w.join(0)
	w.agents(all)
	// A first life of the loops says what the revision would be called.
	stop := w.run()
	w.apply(w.set())
	w.awaitDone(1)
	stop()
	revisions, err := w.client.AppsV1().ControllerRevisions(w.namespace).List(t.Context(), metav1.ListOptions{})
	must(t, "listing revisions", err)
	taken := revisions.Items[0].DeepCopy()
	must(t, "deleting the revision", w.client.AppsV1().ControllerRevisions(w.namespace).Delete(t.Context(), taken.Name, metav1.DeleteOptions{}))
	foreign := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: taken.Name}, Revision: 1}
	foreign.Data.Raw = []byte(`{"other":"content"}`)
	_, err = w.client.AppsV1().ControllerRevisions(w.namespace).Create(t.Context(), foreign, metav1.CreateOptions{})
	must(t, "taking its name", err)

	w.run()
	w.await("another name", func() string {
		count := w.now().Status.CollisionCount
		revisions, err := w.client.AppsV1().ControllerRevisions(w.namespace).List(t.Context(), metav1.ListOptions{})
		must(t, "listing revisions", err)
		if count == nil || *count != 1 || len(revisions.Items) != 2 {
			return fmt.Sprintf("collision count %v and %d revisions, should be 1, and the foreign one with one of the set's", count, len(revisions.Items))
		}
		return ""
	})
	w.awaitDone(1)
	if count := *w.now().Status.CollisionCount; count != 1 {
		t.Errorf("the collision is counted %d times", count)
	}
}

func TestOrphansAreAdoptedAndStrangersReleased(t *testing.T) {
	w := newWorld(t)
	w.join(0)
	w.agents(all)
	orphan := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "orphan", Labels: map[string]string{"app": "logd"}},
		Spec:       v1.PodSpec{NodeName: w.nodeName(0), Containers: []v1.Container{{Name: "main", Image: "daemon:old"}}},
	}
	_, err := w.client.CoreV1().Pods(w.namespace).Create(t.Context(), orphan, metav1.CreateOptions{})
	must(t, "making an orphan", err)
	w.run()
	set := w.apply(w.set(func(set *appsv1.DaemonSet) {
		set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
	}))
	w.await("the adoption", func() string {
		pods := w.pods()
		owner := metav1.GetControllerOf(&pods[0])
		if len(pods) != 1 || owner == nil || owner.UID != set.UID {
			return fmt.Sprintf("%d Pods, owner %v", len(pods), owner)
		}
		return ""
	})
	_, err = w.client.CoreV1().Pods(w.namespace).Patch(t.Context(), "orphan", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"debug"}}}`), metav1.PatchOptions{})
	must(t, "taking the label off", err)
	w.await("the release and a new Pod", func() string {
		pods := w.pods()
		for _, pod := range pods {
			if pod.Name == "orphan" && metav1.GetControllerOf(&pod) != nil {
				return "the Pod still has its owner"
			}
		}
		if len(pods) != 2 {
			return fmt.Sprintf("%d Pods", len(pods))
		}
		return ""
	})
}

// TestC41NoDuplicatesWhateverDies ends the loops again and again while nodes join,
// without giving them time to finish, and watches that no node ever has two Pods.
func TestC41NoDuplicatesWhateverDies(t *testing.T) {
	w := newWorld(t)
	w.agents(all)
	w.apply(w.set(build.Budget("30%", "0")))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() {
		wait.UntilWithContext(ctx, func(context.Context) {
			seen := map[string]string{}
			list, err := w.client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return
			}
			for _, pod := range list.Items {
				if other := seen[pod.Spec.NodeName]; other != "" {
					t.Errorf("node %s has Pods %s and %s", pod.Spec.NodeName, other, pod.Name)
				}
				seen[pod.Spec.NodeName] = pod.Name
			}
		}, 10*time.Millisecond)
	})
	const nodes = 40
	for i := range nodes {
		stop := w.run()
		w.join(i)
		if i == nodes/2 {
			w.edit(build.Image("daemon:v2"))
		}
		time.Sleep(time.Duration(i*7%50) * time.Millisecond) // how far the loops come before they die
		stop()
	}
	w.run()
	w.awaitDone(nodes)
	cancel()
	watching.Wait()
	if got := w.images(); got != fmt.Sprintf("v2=%d", nodes) {
		t.Errorf("the Pods are %s, should be one of v2 on each of %d nodes", got, nodes)
	}
}

func TestC47ABurstIsAsFastAsTheAPI(t *testing.T) {
	w := newWorld(t)
	const nodes = 300
	for i := range nodes {
		w.join(i)
	}
	w.run()
	began := time.Now()
	w.apply(w.set())
	w.await("all Pods", func() string {
		if n := len(w.pods()); n != nodes {
			return fmt.Sprintf("%d Pods", n)
		}
		return ""
	})
	took := time.Since(began)
	t.Logf("%d Pods in %v, %.0f a second", nodes, took.Round(time.Millisecond), nodes/took.Seconds())
	if took > 30*time.Second {
		t.Errorf("%d Pods took %v", nodes, took)
	}
	// The events are told once the rest is done, many Pods in one.
	w.await("the event", func() string {
		events, err := w.client.CoreV1().Events(w.namespace).List(t.Context(), metav1.ListOptions{})
		must(t, "listing events", err)
		for _, event := range events.Items {
			if event.Reason == "SuccessfulCreate" && strings.HasPrefix(event.Message, "Created pods (") {
				return ""
			}
		}
		return fmt.Sprintf("%d events", len(events.Items))
	})
}
