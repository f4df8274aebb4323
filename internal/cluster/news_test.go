package cluster

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"muster.dev/muster/internal/daemonset"
	"muster.dev/muster/internal/testkit/build"
)

// told is a Cluster that hears only what a test tells it, in the order the test
// chooses; so news can be late.
type told struct {
	*testing.T
	*Cluster
	set   *appsv1.DaemonSet
	woken int
}

func newTold(t *testing.T, nodes ...string) *told {
	t.Helper()
	client := fake.NewClientset()
	w := &told{T: t, set: build.DaemonSet("logd", at[*appsv1.DaemonSet]("7"))}
	c, err := New(Options{
		Client: client, Informers: informers.NewSharedInformerFactory(client, 0),
		Events: record.NewFakeRecorder(100), Clock: clocktesting.NewFakePassiveClock(build.Start),
		Wake: func(types.UID, bool) { w.woken++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Cluster = c
	c.setDaemon(w.set)
	for _, name := range nodes {
		c.setNode(build.Node(name))
	}
	return w
}

// at gives an object its place in history.
func at[T metav1.Object](resourceVersion string) func(T) {
	return func(object T) { object.SetResourceVersion(resourceVersion) }
}

func (w *told) decide() daemonset.Plan {
	w.Helper()
	plan, ok := w.Decide(w.set.UID)
	if !ok {
		w.Fatal("the set is not known")
	}
	return plan
}

// settled has revision and hash settled and says the hash.
func (w *told) settled() string {
	w.Helper()
	revision := w.decide().History.Create
	revision.UID, revision.ResourceVersion = "revision", "1"
	w.setRevision(revision)
	return revision.Labels[appsv1.ControllerRevisionHashLabelKey]
}

func TestLateNewsDoesNotBringADeletedPodBack(t *testing.T) {
	w := newTold(t, "a")
	hash := w.settled()
	pod := build.DaemonPod(w.set, "a", hash, at[*v1.Pod]("10"))
	w.setPod(pod)
	w.ended(pod) // the API has accepted our deletion
	if got := w.decide().Status; got.NumberReady != 1 || len(w.deleting) != 1 {
		t.Fatalf("status %+v and %d deletions remembered", got, len(w.deleting))
	}
	// A status the node wrote before: newer than what we hold, older than the deletion.
	w.setPod(build.DaemonPod(w.set, "a", hash, at[*v1.Pod]("11")))
	if w.matrix.Pod(pod.UID).DeletionTimestamp == nil {
		t.Error("news from before the deletion made the Pod live again")
	}
	w.setPod(build.DaemonPod(w.set, "a", hash, at[*v1.Pod]("12"), build.Terminating))
	if len(w.deleting) != 0 {
		t.Error("the deletion is still remembered when the news of it is here")
	}
	w.removePod(pod)
	if plan := w.decide(); len(plan.Create) != 1 {
		t.Errorf("%d Pods are created for the empty node, should be one", len(plan.Create))
	}
}

func TestOldNewsIsNotNews(t *testing.T) {
	w := newTold(t, "a")
	hash := w.settled()
	w.setPod(build.DaemonPod(w.set, "a", hash, at[*v1.Pod]("100")))
	w.setPod(build.DaemonPod(w.set, "a", hash, at[*v1.Pod]("99"), build.Unready))
	if got := w.decide().Status.NumberReady; got != 1 {
		t.Error("an older state of a Pod replaced a newer one")
	}
	older := w.set.DeepCopy()
	older.ResourceVersion, older.Spec.Template.Spec.NodeSelector = "6", map[string]string{"no": "where"}
	w.setDaemon(older)
	if got := w.decide().Status.DesiredNumberScheduled; got != 1 {
		t.Error("an older state of a set replaced a newer one")
	}
}

func TestOwnPodsCountAtOnceAndAreForgottenIfTheyVanish(t *testing.T) {
	w := newTold(t, "a")
	hash := w.settled()
	pod := build.DaemonPod(w.set, "a", hash, at[*v1.Pod]("20"))
	w.wrote(pod)
	plan := w.decide()
	if len(plan.Create) != 0 || plan.Status.CurrentNumberScheduled != 1 {
		t.Fatalf("a Pod of ours that is not in the news yet is created again: %+v", plan.Status)
	}
	if plan.Next.IsZero() {
		t.Error("nobody looks again whether the Pod ever comes")
	}
	// The cache has read past the creation and does not hold the Pod: it came and went.
	w.podStore.(cache.Indexer).Replace(nil, "21")
	if plan := w.decide(); len(plan.Create) != 1 || len(w.unseen) != 0 {
		t.Errorf("a Pod that vanished unseen still covers its node: %+v", plan.Status)
	}
}

func TestOwnPodsStayWhileTheCacheIsBehind(t *testing.T) {
	w := newTold(t, "a")
	hash := w.settled()
	w.wrote(build.DaemonPod(w.set, "a", hash, at[*v1.Pod]("20")))
	w.podStore.(cache.Indexer).Replace(nil, "19")
	if plan := w.decide(); len(plan.Create) != 0 {
		t.Error("a cache that has not read so far is taken for proof")
	}
	held := build.DaemonPod(w.set, "a", hash, at[*v1.Pod]("20"))
	w.podStore.(cache.Indexer).Replace([]any{held}, "30")
	if plan := w.decide(); len(plan.Create) != 0 || len(w.unseen) != 0 {
		t.Error("a Pod that the cache holds is not settled")
	}
}

func TestWakingIsForThoseConcerned(t *testing.T) {
	w := newTold(t, "a")
	hash := w.settled()
	woken := func(what string, want bool, news func()) {
		t.Helper()
		before := w.woken
		news()
		if got := w.woken > before; got != want {
			t.Errorf("%s wakes the set: %v, should be %v", what, got, want)
		}
	}
	woken("a heartbeat", false, func() { w.setNode(build.Node("a")) })
	woken("a new node", true, func() { w.setNode(build.Node("b")) })
	woken("its Pod", true, func() { w.setPod(build.DaemonPod(w.set, "a", hash, at[*v1.Pod]("5"))) })
	orphan := build.DaemonPod(w.set, "a", hash, build.Named("orphan"), at[*v1.Pod]("6"), func(pod *v1.Pod) { pod.OwnerReferences = nil })
	woken("an orphan of its namespace", true, func() { w.setPod(orphan) })
	elsewhere := orphan.DeepCopy()
	elsewhere.Namespace, elsewhere.UID = "other", "elsewhere"
	woken("an orphan elsewhere", false, func() { w.setPod(elsewhere) })
	woken("the end of its node", true, func() { w.removeNode(build.Node("b")) })
}

func TestTrimKeepsWhatDecidesAndDropsTheRest(t *testing.T) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}, Annotations: map[string]string{"kept": ""}},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "main", Image: "i", Env: []v1.EnvVar{{Name: "A"}}, Args: []string{"-v"},
			Ports: []v1.ContainerPort{{HostPort: 1}},
		}}},
	}
	trimmed, err := Trim(pod)
	if err != nil {
		t.Fatal(err)
	}
	got := trimmed.(*v1.Pod)
	c := got.Spec.Containers[0]
	if got.ManagedFields != nil || c.Env != nil || c.Args != nil {
		t.Errorf("left in are %+v", got)
	}
	if len(got.Annotations) != 1 || c.Image != "i" || len(c.Ports) != 1 {
		t.Errorf("lost is something that decides: %+v", got)
	}
	if _, err := Trim(cache.DeletedFinalStateUnknown{Key: "gone"}); err != nil {
		t.Errorf("an object that is only a memory: %v", err)
	}
}
