// Package apitest_test runs the control loops against a real API server with
// nodes that only exist in the API: an agent of a few lines makes their Pods Ready
// and ends them. What needs real validation, preconditions and watches is tested
// here; rules are tested in the rooms that own them.
package apitest_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"muster.dev/muster/internal/control"
	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/testkit/build"
	"muster.dev/muster/internal/testkit/server"
)

const patience = 60 * time.Second

func TestMain(m *testing.M) { os.Exit(server.RunTests(m)) }

// world is one namespace and its own nodes on the shared server.
type world struct {
	*testing.T
	client    kubernetes.Interface
	server    *server.Server
	namespace string
}

// newWorld makes a namespace named after the test, as far as a name allows.
func newWorld(t *testing.T) *world {
	t.Helper()
	shared := server.Shared(t)
	client, err := kubernetes.NewForConfig(shared.Client())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, client: client, server: shared, namespace: strings.ToLower(t.Name())}
	w.namespace = w.namespace[:min(len(w.namespace), 50)]
	_, err = client.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, metav1.CreateOptions{})
	must(t, "making the namespace", err)
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err = client.CoreV1().ServiceAccounts(w.namespace).Create(t.Context(), account, metav1.CreateOptions{})
	must(t, "making the service account", err)
	return w
}

func must(t *testing.T, doing string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", doing, err)
	}
}

// run runs the loops until the function it returns is called, or the test ends.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- control.Run(ctx, control.Config{Client: w.server.Client()}) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.Errorf("running the loops: %v", err)
		}
	}
	w.Cleanup(stop)
	return stop
}

// agents play the nodes' part for this world's Pods: ready says whose Pods serve.
func (w *world) agents(ready func(*v1.Pod) bool) {
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithNamespace(w.namespace))
	pods := w.client.CoreV1().Pods(w.namespace)
	see := func(object any) {
		pod, ok := object.(*v1.Pod)
		switch {
		case !ok || pod.Spec.NodeName == "":
		case pod.DeletionTimestamp != nil:
			now := metav1.NewDeleteOptions(0)
			now.Preconditions = &metav1.Preconditions{UID: &pod.UID} // its successor has the same name
			_ = pods.Delete(ctx, pod.Name, *now)
		case !coverage.Ready(pod) && ready(pod):
			serving := pod.DeepCopy()
			build.SetReady(serving, time.Now())
			_, _ = pods.UpdateStatus(ctx, serving, metav1.UpdateOptions{})
		}
	}
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, object any) { see(object) },
	})
	must(w.T, "following Pods", err)
	factory.StartWithContext(ctx)
	w.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
}

func (w *world) nodeName(i int) string { return fmt.Sprintf("%.40s-%03d", w.namespace, i) }

// join adds a node of this world, with room and a fresh condition.
func (w *world) join(i int) {
	w.Helper()
	node := build.Node(w.nodeName(i), build.Labelled("world="+w.namespace))
	node.UID, node.CreationTimestamp = "", metav1.Time{}
	status := node.Status
	status.Conditions[0].LastHeartbeatTime = metav1.Now()
	created, err := w.client.CoreV1().Nodes().Create(w.Context(), node, metav1.CreateOptions{})
	must(w.T, "adding a node", err)
	w.await("the node's report", func() string {
		created.Status = status
		_, err := w.client.CoreV1().Nodes().UpdateStatus(w.Context(), created, metav1.UpdateOptions{})
		if err == nil {
			return ""
		}
		if newest, err := w.client.CoreV1().Nodes().Get(w.Context(), node.Name, metav1.GetOptions{}); err == nil {
			created = newest // the loops have put taints on it meanwhile
		}
		return err.Error()
	})
	w.Cleanup(func() { _ = w.client.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}) })
}

// set is a daemon for this world's nodes.
func (w *world) set(changes ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	here := func(set *appsv1.DaemonSet) {
		build.Selecting("world=" + w.namespace)(set)
		set.Namespace, set.UID, set.CreationTimestamp, set.Annotations = w.namespace, "", metav1.Time{}, nil
	}
	return build.DaemonSet("logd", append([]func(*appsv1.DaemonSet){here}, changes...)...)
}

func (w *world) apply(set *appsv1.DaemonSet) *appsv1.DaemonSet {
	w.Helper()
	created, err := w.client.AppsV1().DaemonSets(w.namespace).Create(w.Context(), set, metav1.CreateOptions{})
	must(w.T, "creating the set", err)
	return created
}

func (w *world) edit(change func(*appsv1.DaemonSet)) {
	w.Helper()
	w.await("the edit", func() string {
		set := w.now()
		change(set)
		if _, err := w.client.AppsV1().DaemonSets(w.namespace).Update(w.Context(), set, metav1.UpdateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
}

func (w *world) now() *appsv1.DaemonSet {
	w.Helper()
	set, err := w.client.AppsV1().DaemonSets(w.namespace).Get(w.Context(), "logd", metav1.GetOptions{})
	must(w.T, "reading the set", err)
	return set
}

func (w *world) pods() []v1.Pod {
	w.Helper()
	list, err := w.client.CoreV1().Pods(w.namespace).List(w.Context(), metav1.ListOptions{})
	must(w.T, "listing Pods", err)
	return list.Items
}

// images are how many Pods run each image.
func (w *world) images() string {
	count := map[string]int{}
	for _, pod := range w.pods() {
		count[strings.TrimPrefix(pod.Spec.Containers[0].Image, "daemon:")]++
	}
	var words []string
	for _, image := range slices.Sorted(maps.Keys(count)) {
		words = append(words, fmt.Sprintf("%s=%d", image, count[image]))
	}
	return strings.Join(words, " ")
}

// await waits until check has nothing to object.
func (w *world) await(what string, check func() (objection string)) {
	w.Helper()
	deadline := time.Now().Add(patience)
	for {
		objection := check()
		if objection == "" {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("waiting for %s: %s", what, objection)
		}
		time.Sleep(20 * time.Millisecond) // the pace of asking; the condition is what is awaited
	}
}

// awaitDone waits as kubectl rollout status does, and for that many Pods.
func (w *world) awaitDone(nodes int32) {
	w.Helper()
	w.await("the rollout", func() string {
		set := w.now()
		s := set.Status
		if s.ObservedGeneration < set.Generation || s.DesiredNumberScheduled != nodes ||
			s.UpdatedNumberScheduled < s.DesiredNumberScheduled || s.NumberAvailable < s.DesiredNumberScheduled {
			return fmt.Sprintf("generation %d, status %+v", set.Generation, s)
		}
		return ""
	})
}
