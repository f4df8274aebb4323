package agent

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttest "k8s.io/client-go/testing"
)

var podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// fakeAPI is client-go's fake with what the agent relies on besides: resource
// versions that grow and are checked, and a hook before each status write, which
// may take its time or fail.
type fakeAPI struct {
	kubernetes.Interface
	tracker clienttest.ObjectTracker

	mu          sync.Mutex
	version     int
	beforeWrite func(*v1.Pod) error
	failLists   bool
	writes      int
}

func newFakeAPI() *fakeAPI {
	client := fake.NewSimpleClientset()
	api := &fakeAPI{Interface: client, tracker: client.Tracker(), version: 1}
	client.PrependReactor("update", "*", api.checkVersion)
	client.PrependReactor("create", "*", func(action clienttest.Action) (bool, kruntime.Object, error) {
		object := action.(clienttest.CreateAction).GetObject()
		api.stamp(object)
		if event, ok := object.(*v1.Event); ok {
			event.Name += "." + event.ResourceVersion // named by time, which may stand still here
		}
		return false, nil, nil
	})
	client.PrependReactor("list", "pods", func(clienttest.Action) (bool, kruntime.Object, error) {
		api.mu.Lock()
		defer api.mu.Unlock()
		if api.failLists {
			return true, nil, apierrors.NewServiceUnavailable("down")
		}
		return false, nil, nil
	})
	return api
}

func (f *fakeAPI) stamp(object kruntime.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	accessor, err := meta.Accessor(object)
	if err != nil {
		panic(err)
	}
	accessor.SetResourceVersion(strconv.Itoa(f.version))
}

func (f *fakeAPI) checkVersion(action clienttest.Action) (bool, kruntime.Object, error) {
	update := action.(clienttest.UpdateAction)
	want, err := meta.Accessor(update.GetObject())
	if err != nil {
		return true, nil, err
	}
	stored, err := f.tracker.Get(update.GetResource(), update.GetNamespace(), want.GetName())
	if err != nil {
		return true, nil, err
	}
	have, err := meta.Accessor(stored)
	if err != nil {
		return true, nil, err
	}
	// The node restriction comes before the comparison of versions.
	if update.GetSubresource() == "status" && !maps.Equal(want.GetLabels(), have.GetLabels()) {
		return true, nil, apierrors.NewForbidden(update.GetResource().GroupResource(), want.GetName(),
			fmt.Errorf("cannot update labels through pod status"))
	}
	if want.GetResourceVersion() != have.GetResourceVersion() {
		return true, nil, apierrors.NewConflict(update.GetResource().GroupResource(), want.GetName(), fmt.Errorf("stale"))
	}
	f.stamp(update.GetObject())
	return false, nil, nil
}

// before sets what happens before each status write.
func (f *fakeAPI) before(hook func(*v1.Pod) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beforeWrite = hook
}

func (f *fakeAPI) create(t *testing.T, pod *v1.Pod) {
	t.Helper()
	if _, err := f.CoreV1().Pods(pod.Namespace).Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (f *fakeAPI) get(pod *v1.Pod) *v1.Pod {
	got, err := f.tracker.Get(podResource, pod.Namespace, pod.Name)
	if err != nil {
		return nil
	}
	return got.(*v1.Pod)
}

// change edits a Pod as someone else than the agent would.
func (f *fakeAPI) change(t *testing.T, pod *v1.Pod, edit func(*v1.Pod)) {
	t.Helper()
	got := f.get(pod)
	if got == nil {
		t.Fatalf("pod %s is gone", pod.Name)
	}
	edit(got)
	f.stamp(got)
	if err := f.tracker.Update(podResource, got, got.Namespace); err != nil {
		t.Fatal(err)
	}
}

// delete asks for a graceful deletion, as kubectl does.
func (f *fakeAPI) delete(t *testing.T, pod *v1.Pod, grace int64) {
	t.Helper()
	f.change(t, pod, func(p *v1.Pod) {
		now := metav1.Now()
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
	})
}

// forceDelete removes the object at once.
func (f *fakeAPI) forceDelete(t *testing.T, pod *v1.Pod) {
	t.Helper()
	if err := f.tracker.Delete(podResource, pod.Namespace, pod.Name); err != nil {
		t.Fatal(err)
	}
}

func (f *fakeAPI) CoreV1() typedv1.CoreV1Interface {
	return hookedCore{f.Interface.CoreV1(), f}
}

type hookedCore struct {
	typedv1.CoreV1Interface
	api *fakeAPI
}

func (c hookedCore) Pods(namespace string) typedv1.PodInterface {
	return hookedPods{c.CoreV1Interface.Pods(namespace), c.api}
}

type hookedPods struct {
	typedv1.PodInterface
	api *fakeAPI
}

func (p hookedPods) UpdateStatus(ctx context.Context, pod *v1.Pod, options metav1.UpdateOptions) (*v1.Pod, error) {
	p.api.mu.Lock()
	hook := p.api.beforeWrite
	p.api.mu.Unlock()
	if hook != nil {
		if err := hook(pod); err != nil {
			return nil, err
		}
	}
	got, err := p.PodInterface.UpdateStatus(ctx, pod, options)
	if err == nil {
		p.api.mu.Lock()
		p.api.writes++
		p.api.mu.Unlock()
	}
	return got, err
}

var podCount int

// testPod is a Pod of the namespace default bound to node n1, with edits.
func testPod(edits ...func(*v1.Pod)) *v1.Pod {
	podCount++
	grace, never := int64(30), false
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("pod-%d", podCount), UID: types.UID(fmt.Sprintf("uid-%d", podCount)),
			CreationTimestamp: metav1.NewTime(time.Now()), Generation: 1,
		},
		Spec: v1.PodSpec{
			NodeName: "n1", RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken: &never, DNSPolicy: v1.DNSDefault,
			SecurityContext: &v1.PodSecurityContext{},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	for _, edit := range edits {
		edit(pod)
	}
	return pod
}

func inits(names ...string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		for _, name := range names {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, testContainer(name))
		}
	}
}

func apps(names ...string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		for _, name := range names {
			pod.Spec.Containers = append(pod.Spec.Containers, testContainer(name))
		}
	}
}

func testContainer(name string) v1.Container {
	return v1.Container{
		Name: name, Image: "example.test/app:1", ImagePullPolicy: v1.PullIfNotPresent,
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile,
	}
}

// IsWatchListSemanticsUnSupported makes informers list before they watch.
func (f *fakeAPI) IsWatchListSemanticsUnSupported() bool { return true }

// down makes lists fail, or work again.
func (f *fakeAPI) down(is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failLists = is
}

// written is how many status writes of Pods there were.
func (f *fakeAPI) written() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}
