// Package live_test runs muster's own loops against a real API server, with
// nodes that are only objects: what a fake client cannot show is whether the
// server accepts what the loops write. Time passes ten times as fast.
package live_test

import (
	"context"
	"os"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"

	"muster.dev/muster/internal/control"
	"muster.dev/muster/internal/testkit/server"
)

func TestMain(m *testing.M) { os.Exit(server.RunTests(m)) }

// cluster is a running control plane and the objects of one test.
type cluster struct {
	*testing.T
	client    kubernetes.Interface
	namespace string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	config := server.Shared(t).Client()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "live-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, client: client, namespace: namespace.Name}
	t.Cleanup(c.clear)
	c.must(client.CoreV1().ServiceAccounts(c.namespace).Create(t.Context(), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}))

	clock := clocktesting.NewFakeClock(time.Now())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- control.Run(ctx, control.Config{Client: config, Clock: clock}) }()
	go func() {
		wait.Until(func() { clock.Step(200 * time.Millisecond) }, 20*time.Millisecond, ctx.Done())
		done <- nil
	}()
	t.Cleanup(func() {
		cancel()
		for range cap(done) {
			if err := <-done; err != nil {
				t.Errorf("running the loops: %v", err)
			}
		}
	})
	return c
}

// clear removes the test's Pods, so that they hold no room in the next one.
func (c *cluster) clear() {
	now := int64(0)
	err := c.client.CoreV1().Pods(c.namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	if err != nil {
		c.Errorf("removing the test's Pods: %v", err)
	}
}

func (c *cluster) must(_ any, err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// join creates a node and keeps its lease, which is good for the seconds given,
// fresh until the returned function is called.
func (c *cluster) join(name string, seconds int32) (leave func()) {
	c.Helper()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}
	created, err := c.client.CoreV1().Nodes().Create(c.Context(), node, metav1.CreateOptions{})
	c.must(nil, err)
	if len(created.Spec.Taints) == 0 {
		c.Errorf("the server lets Pods onto node %s before it is Ready", name)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		wait.UntilWithContext(ctx, func(ctx context.Context) { c.renew(ctx, name, seconds) }, 500*time.Millisecond)
	}()
	leave = func() { cancel(); <-stopped }
	c.Cleanup(func() {
		leave()
		err := c.client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			c.Errorf("deleting node %s: %v", name, err)
		}
	})
	return leave
}

func (c *cluster) renew(ctx context.Context, name string, seconds int32) {
	now := metav1.NowMicro()
	leases := c.client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &now, LeaseDurationSeconds: &seconds, HolderIdentity: &name},
		}, metav1.CreateOptions{})
	} else if err == nil {
		lease.Spec.RenewTime = &now
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil && ctx.Err() == nil {
		c.Errorf("renewing the lease of %s: %v", name, err)
	}
}

// ready posts the node's first status, as its agent does.
func (c *cluster) ready(name string) {
	c.Helper()
	c.eventually("the node's status is taken", func(ctx context.Context) bool {
		node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		c.must(nil, err)
		node.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("10"),
		}
		node.Status.Capacity = node.Status.Allocatable
		node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now()}}
		_, err = c.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err == nil
	})
}

func (c *cluster) create(name, cpu string) {
	c.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{{
		Name: "main", Image: "example.com/image", Command: []string{"kept"},
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
	}}}}
	c.must(c.client.CoreV1().Pods(c.namespace).Create(c.Context(), pod, metav1.CreateOptions{}))
}

func (c *cluster) pod(ctx context.Context, name string) *v1.Pod {
	c.Helper()
	pod, err := c.client.CoreV1().Pods(c.namespace).Get(ctx, name, metav1.GetOptions{})
	c.must(nil, err)
	return pod
}

// eventually waits until the condition holds.
func (c *cluster) eventually(what string, holds func(context.Context) bool) {
	c.Helper()
	err := wait.PollUntilContextTimeout(c.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		return holds(ctx), nil
	})
	if err != nil {
		c.Fatalf("waiting until %s: %v", what, err)
	}
}

func condition(pod *v1.Pod, kind v1.PodConditionType) v1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1.PodCondition{}
}

func (c *cluster) event(ctx context.Context, pod, reason string) string {
	list, err := c.client.CoreV1().Events(c.namespace).List(ctx, metav1.ListOptions{})
	c.must(nil, err)
	for _, event := range list.Items {
		if event.InvolvedObject.Name == pod && event.Reason == reason {
			return event.Message
		}
	}
	return ""
}

func TestPodsAreBoundOnceANodeIsReadyAndHasRoom(t *testing.T) {
	c := newCluster(t)
	c.join("room-a", 600)
	c.create("first", "3")
	const unready = "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }."
	c.eventually("the Pod says why it waits", func(ctx context.Context) bool {
		scheduled := condition(c.pod(ctx, "first"), v1.PodScheduled)
		return scheduled.Status == v1.ConditionFalse && scheduled.Reason == "Unschedulable" && scheduled.Message == unready
	})
	c.ready("room-a")
	c.eventually("the Pod is bound", func(ctx context.Context) bool {
		pod := c.pod(ctx, "first")
		return pod.Spec.NodeName == "room-a" && condition(pod, v1.PodScheduled).Status == v1.ConditionTrue
	})
	if got := c.pod(t.Context(), "first").Spec.Containers[0].Command; len(got) != 1 || got[0] != "kept" {
		t.Errorf("writing the Pod's status lost its command: %q", got)
	}
	c.eventually("its events say so", func(ctx context.Context) bool {
		return c.event(ctx, "first", "FailedScheduling") == unready &&
			c.event(ctx, "first", "Scheduled") == "Successfully assigned "+c.namespace+"/first to room-a"
	})

	c.create("second", "2")
	c.eventually("the second says what is short", func(ctx context.Context) bool {
		return condition(c.pod(ctx, "second"), v1.PodScheduled).Message == "0/1 nodes are available: 1 Insufficient cpu."
	})
	now := int64(0)
	c.must(nil, c.client.CoreV1().Pods(c.namespace).Delete(t.Context(), "first", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	c.eventually("the second has the room", func(ctx context.Context) bool { return c.pod(ctx, "second").Spec.NodeName == "room-a" })
}

func TestSilentNodeIsLostAndItsPodsGoWithIt(t *testing.T) {
	c := newCluster(t)
	leave := c.join("lost-a", 40)
	c.ready("lost-a")
	c.create("plain", "1")
	c.eventually("the Pod is bound", func(ctx context.Context) bool { return c.pod(ctx, "plain").Spec.NodeName == "lost-a" })
	c.eventually("the Pod is Ready", func(ctx context.Context) bool {
		pod := c.pod(ctx, "plain")
		pod.Status.Phase = v1.PodRunning
		pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue})
		_, err := c.client.CoreV1().Pods(c.namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err == nil
	})
	leave()
	c.eventually("the node is Unknown and tainted", func(ctx context.Context) bool {
		node, err := c.client.CoreV1().Nodes().Get(ctx, "lost-a", metav1.GetOptions{})
		c.must(nil, err)
		unknown, taints := false, 0
		for _, each := range node.Status.Conditions {
			unknown = unknown || each.Type == v1.NodeReady && each.Status == v1.ConditionUnknown && each.Message == "Kubelet stopped posting node status."
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == v1.TaintNodeUnreachable {
				taints++
			}
		}
		return unknown && taints == 2
	})
	c.eventually("its Pod is not Ready", func(ctx context.Context) bool {
		return condition(c.pod(ctx, "plain"), v1.PodReady).Status == v1.ConditionFalse
	})
	watch, err := c.client.CoreV1().Pods(c.namespace).Watch(t.Context(), metav1.ListOptions{})
	c.must(nil, err)
	defer watch.Stop()
	deleted := time.Now()
	c.must(nil, c.client.CoreV1().Nodes().Delete(t.Context(), "lost-a", metav1.DeleteOptions{}))
	c.eventually("its Pod is gone", func(ctx context.Context) bool {
		_, err := c.client.CoreV1().Pods(c.namespace).Get(ctx, "plain", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if took := time.Since(deleted); took < 3*time.Second {
		t.Errorf("the Pod went %s after its node, which is less than the quarantine", took)
	}
	disrupted := false
	for !disrupted {
		select {
		case event := <-watch.ResultChan():
			pod, ok := event.Object.(*v1.Pod)
			disrupted = ok && condition(pod, v1.DisruptionTarget).Reason == "DeletionByPodGC" && pod.Status.Phase == v1.PodFailed
		case <-time.After(10 * time.Second):
			t.Fatal("nothing on the Pod said why it went")
		}
	}
}
