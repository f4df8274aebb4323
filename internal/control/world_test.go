package control

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
)

// world is a cluster without a server: the API's client is client-go's fake,
// taught to bind Pods, and time is the bubble's.
type world struct {
	*testing.T
	client *fake.Clientset
	stop   func()
	// refuse, if set, may make the server refuse a request.
	refuse atomic.Pointer[func(clienttesting.Action) error]
}

// inWorld runs the loops over the objects, lets them come to rest, and hands
// the world to the story. Inside, time passes only when everything waits.
func inWorld(t *testing.T, loops []loop, objects []runtime.Object, story func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{T: t, client: fake.NewClientset(objects...)}
		w.client.PrependReactor("create", "pods", w.bind)
		w.client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if refuse := w.refuse.Load(); refuse != nil {
				err := (*refuse)(action)
				return err != nil, nil, err
			}
			return false, nil, nil
		})
		done := make(chan error, 1)
		go func() { done <- run(ctx, w.client, clock.RealClock{}, loops) }()
		w.stop = func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("running the loops: %v", err)
			}
		}
		synctest.Wait()
		w.settle()
		story(w)
		w.stop()
	})
}

// whenAsked lets refuse decide which requests the server refuses from now on.
func (w *world) whenAsked(refuse func(clienttesting.Action) error) { w.refuse.Store(&refuse) }

// settle lets a little time pass, enough for queues and their first back-offs.
func (w *world) settle() { w.pass(2 * time.Second) }

func (w *world) pass(d time.Duration) {
	time.Sleep(d) // the bubble's time, not the machine's
	synctest.Wait()
}

// bind does what the API server does with a Binding.
func (w *world) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clienttesting.CreateAction)
	if !ok || action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding := create.GetObject().(*v1.Binding)
	kind := v1.SchemeGroupVersion.WithResource("pods")
	object, err := w.client.Tracker().Get(kind, binding.Namespace, binding.Name)
	if err != nil {
		return true, nil, err
	}
	pod := object.(*v1.Pod).DeepCopy()
	pod.Spec.NodeName = binding.Target.Name
	setPodCondition(&pod.Status, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue}, time.Now())
	return true, binding, w.client.Tracker().Update(kind, pod, pod.Namespace)
}

func (w *world) pod(name string) *v1.Pod {
	w.Helper()
	pod, err := w.client.CoreV1().Pods("default").Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatalf("reading Pod %s: %v", name, err)
	}
	return pod
}

func (w *world) node(name string) *v1.Node {
	w.Helper()
	node, err := w.client.CoreV1().Nodes().Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatalf("reading node %s: %v", name, err)
	}
	return node
}

func (w *world) createPod(pod *v1.Pod) {
	w.Helper()
	if _, err := w.client.CoreV1().Pods(pod.Namespace).Create(w.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.Fatalf("creating Pod %s: %v", pod.Name, err)
	}
}

func (w *world) deletePod(name string) {
	w.Helper()
	if err := w.client.CoreV1().Pods("default").Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.Fatalf("deleting Pod %s: %v", name, err)
	}
}

func (w *world) updateNode(name string, change func(*v1.Node)) {
	w.Helper()
	node := w.node(name).DeepCopy()
	change(node)
	if _, err := w.client.CoreV1().Nodes().Update(w.Context(), node, metav1.UpdateOptions{}); err != nil {
		w.Fatalf("updating node %s: %v", name, err)
	}
}

// writes counts the writes of a kind and subresource since the world began.
func (w *world) writes(verb, kind, subresource string) int {
	count := 0
	for _, action := range w.client.Actions() {
		if action.Matches(verb, kind) && action.GetSubresource() == subresource {
			count++
		}
	}
	return count
}

// messages are the events of a reason about a Pod or node, in order.
func (w *world) messages(reason, name string) []string {
	w.Helper()
	list, err := w.client.CoreV1().Events("").List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatalf("listing events: %v", err)
	}
	var found []string
	for _, event := range list.Items {
		if event.Reason == reason && event.InvolvedObject.Name == name {
			found = append(found, event.Message)
		}
	}
	return found
}

// worldNode is a Ready node with room for four CPUs and ten Pods.
func worldNode(name string, changes ...func(*v1.Node)) *v1.Node {
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{
			Allocatable: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("10"),
			},
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"}},
		},
	}
	for _, change := range changes {
		change(node)
	}
	return node
}

// worldPod is an unbound Pod that asks for some CPU.
func worldPod(name, cpu string, changes ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec: v1.PodSpec{
			SchedulerName: v1.DefaultSchedulerName,
			Containers: []v1.Container{{
				Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
			}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func onNode(name string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Spec.NodeName = name }
}

func podCondition(pod *v1.Pod, kind v1.PodConditionType) v1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return v1.PodCondition{}
}
