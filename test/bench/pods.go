package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"muster.dev/muster/internal/runtime"
)

const (
	namespace = "default"
	image     = "busybox:1.36"
	barePeer  = "bare CRI"
)

// podBench measures Pods through the API, each next to the same one on the floor.
type podBench struct {
	client *kubernetes.Clientset
	floor  *floor
	muster int // its process
	gap    row
}

func measurePods(ctx context.Context, c *cluster, n int) (rows []row, err error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	floor, err := newFloor(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, floor.close()) }()
	muster, err := c.pid()
	if err != nil {
		return nil, err
	}
	b := &podBench{client: client, floor: floor, muster: muster}
	// The first Pod makes the network and reads the programs from disk, for both.
	if err := b.pair(ctx, 0, 1, &row{}); err != nil {
		return nil, err
	}
	b.gap = row{name: "step-gap", what: "one step's end to the next one's start", peer: barePeer}
	return b.measure(ctx, n)
}

func (b *podBench) measure(ctx context.Context, n int) ([]row, error) {
	one := row{name: "pod-1-init", what: "apply to Ready, 1 init step", peer: barePeer}
	five := row{name: "pod-5-init", what: "apply to Ready, 5 init steps", peer: barePeer}
	daemon := row{name: "daemon", what: "DaemonSet applied to Ready, 1 init step", peer: barePeer}
	costs, err := b.costs(ctx, n, func() error {
		return times(n, func(i int) error { return b.pair(ctx, i, 1, &one) })
	})
	if err != nil {
		return nil, err
	}
	if err := times(n, func(i int) error { return b.pair(ctx, i, 5, &five) }); err != nil {
		return nil, err
	}
	if err := times(n, func(i int) error { return b.daemonPair(ctx, i, &daemon) }); err != nil {
		return nil, err
	}
	return append([]row{one, five, b.gap, daemon}, costs...), nil
}

// costs are what each of n Pods cost muster and its API server while they lived.
func (b *podBench) costs(ctx context.Context, n int, live func() error) ([]row, error) {
	before, err := settledWrites(ctx, b.client)
	if err != nil {
		return nil, err
	}
	began, err := cpuTime(b.muster)
	if err != nil {
		return nil, err
	}
	if err := live(); err != nil {
		return nil, err
	}
	ended, err := cpuTime(b.muster)
	if err != nil {
		return nil, err
	}
	after, err := settledWrites(ctx, b.client)
	if err != nil {
		return nil, err
	}
	cpu := row{name: "pod-cpu", what: "muster's CPU over a Pod's life",
		ours: sample{milliseconds(ended[0]-began[0]) / float64(n)}}
	return append(writesPerPod(before, after, n), cpu), nil
}

func times(n int, do func(i int) error) error {
	for i := range n {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

// podOf is a Pod with so many init steps that do nothing, and an app that ends
// when it is told to.
func podOf(name string, steps int) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app": name}}}
	for i := range steps {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container(fmt.Sprint("step-", i), "true"))
	}
	pod.Spec.Containers = []v1.Container{container("app", "trap 'exit 0' TERM; sleep 3600 & wait")}
	pod.Spec.AutomountServiceAccountToken = ptr.To(false)
	pod.Spec.EnableServiceLinks = ptr.To(false)
	return pod
}

func container(name, script string) v1.Container {
	return v1.Container{Name: name, Image: image, ImagePullPolicy: v1.PullIfNotPresent, Command: []string{"sh", "-c", script}}
}

// pair measures one Pod here and on the floor.
func (b *podBench) pair(ctx context.Context, i, steps int, r *row) error {
	pod := podOf(fmt.Sprintf("bench-%d-%d", steps, i), steps)
	return b.besideFloor(ctx, i, pod, r, func() error { return b.pod(ctx, pod, r) })
}

func (b *podBench) besideFloor(ctx context.Context, i int, pod *v1.Pod, r *row, ours func() error) error {
	return pairs(i, ours, func() error {
		took, ran, err := b.floor.run(ctx, pod)
		r.peerTook(took)
		for _, gap := range gaps(ran) {
			b.gap.peerTook(gap)
		}
		return err
	})
}

// pod measures one Pod's way from its creation to the news that it is Ready, and
// deletes it.
func (b *podBench) pod(ctx context.Context, pod *v1.Pod, r *row) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pods := b.client.CoreV1().Pods(namespace)
	news, err := pods.Watch(ctx, only(pod.Name))
	if err != nil {
		return err
	}
	defer news.Stop()
	began := time.Now()
	made, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	err = await(ctx, news, func(e watch.Event) bool { return e.Type != watch.Deleted && ready(e.Object.(*v1.Pod)) })
	if err != nil {
		return err
	}
	r.took(time.Since(began))
	ran, err := b.floor.client.Pod(ctx, made.UID)
	if err != nil {
		return err
	}
	b.noteGaps(ran)
	if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return await(ctx, news, func(e watch.Event) bool { return e.Type == watch.Deleted })
}

func (b *podBench) noteGaps(ran runtime.Pod) {
	for _, gap := range gaps(ran) {
		b.gap.took(gap)
	}
}

// daemonPair measures a DaemonSet's way from its creation to the news that its
// Pod is ready on the one node, next to the same Pod on the floor.
func (b *podBench) daemonPair(ctx context.Context, i int, r *row) error {
	pod := podOf(fmt.Sprint("bench-daemon-", i), 1)
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: namespace}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: pod.Labels}
	set.Spec.Template = v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec}
	return b.besideFloor(ctx, i, pod, r, func() error { return b.daemon(ctx, set, r) })
}

func (b *podBench) daemon(ctx context.Context, set *appsv1.DaemonSet, r *row) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sets := b.client.AppsV1().DaemonSets(namespace)
	news, err := sets.Watch(ctx, only(set.Name))
	if err != nil {
		return err
	}
	defer news.Stop()
	began := time.Now()
	if _, err := sets.Create(ctx, set, metav1.CreateOptions{}); err != nil {
		return err
	}
	err = await(ctx, news, func(e watch.Event) bool {
		s := e.Object.(*appsv1.DaemonSet).Status
		return e.Type != watch.Deleted && s.ObservedGeneration > 0 && s.DesiredNumberScheduled > 0 && s.NumberReady == s.DesiredNumberScheduled
	})
	if err != nil {
		return err
	}
	r.took(time.Since(began))
	if err := sets.Delete(ctx, set.Name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}); err != nil {
		return err
	}
	return await(ctx, news, func(e watch.Event) bool { return e.Type == watch.Deleted })
}

func only(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
}

// await reads news until one is what was waited for.
func await(ctx context.Context, news watch.Interface, wanted func(watch.Event) bool) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event, open := <-news.ResultChan():
			if !open || event.Type == watch.Error {
				return fmt.Errorf("watching: the watch ended: %w", apierrors.FromObject(event.Object))
			}
			if wanted(event) {
				return nil
			}
		}
	}
}

func ready(pod *v1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodReady {
			return condition.Status == v1.ConditionTrue
		}
	}
	return false
}
