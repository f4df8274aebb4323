// Package build makes valid nodes, daemons and Pods for tests: each builder
// returns an object a server could hold and takes the changes that a test is
// about. UIDs follow from names, so that tests can foretell them.
package build

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Start is the time at which everything built here came to be.
var Start = time.Date(2027, 3, 29, 12, 0, 0, 0, time.UTC)

// Node is a Ready node.
func Node(name string, changes ...func(*v1.Node)) *v1.Node {
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("node-" + name), CreationTimestamp: metav1.NewTime(Start),
			Labels: map[string]string{v1.LabelHostname: name, v1.LabelOSStable: "linux"},
		},
		Status: v1.NodeStatus{
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"}},
			Allocatable: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("110"),
			},
		},
	}
	return with(node, changes)
}

// Labelled gives a node labels, written key=value.
func Labelled(labels ...string) func(*v1.Node) {
	return func(node *v1.Node) {
		for _, each := range labels {
			key, value, _ := strings.Cut(each, "=")
			node.Labels[key] = value
		}
	}
}

// Tainted gives a node a taint, written key=value:Effect or key:Effect.
func Tainted(taint string) func(*v1.Node) {
	return func(node *v1.Node) { node.Spec.Taints = append(node.Spec.Taints, Taint(taint)) }
}

// Taint reads a taint written key=value:Effect or key:Effect.
func Taint(text string) v1.Taint {
	key, effect, _ := strings.Cut(text, ":")
	key, value, _ := strings.Cut(key, "=")
	return v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)}
}

// DaemonSet is a set named and labelled app=name in namespace default, with the
// API's defaults: RollingUpdate with maxUnavailable 1.
func DaemonSet(name string, changes ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	none, one, limit := intstr.FromInt32(0), intstr.FromInt32(1), int32(10)
	app := map[string]string{"app": name}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("set-" + name), Generation: 1,
			CreationTimestamp: metav1.NewTime(Start),
			Annotations:       map[string]string{appsv1.DeprecatedTemplateGeneration: "1"},
		},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: v1.PodSpec{
					SchedulerName: v1.DefaultSchedulerName, RestartPolicy: v1.RestartPolicyAlways,
					Containers: []v1.Container{{Name: "main", Image: "daemon:v1"}},
				},
			},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &one, MaxSurge: &none},
			},
			RevisionHistoryLimit: &limit,
		},
	}
	return with(set, changes)
}

// Budget sets how an update rolls: numbers or percentages.
func Budget(maxUnavailable, maxSurge string) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) {
		unavailable, surge := intstr.Parse(maxUnavailable), intstr.Parse(maxSurge)
		set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &unavailable, MaxSurge: &surge}
	}
}

// Image sets the image, and with it the revision.
func Image(image string) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.Containers[0].Image = image }
}

// Tolerating adds a toleration of one taint to a set's template.
func Tolerating(taint string) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) {
		t := Taint(taint)
		spec := &set.Spec.Template.Spec
		spec.Tolerations = append(spec.Tolerations, v1.Toleration{Key: t.Key, Operator: v1.TolerationOpEqual, Value: t.Value, Effect: t.Effect})
	}
}

// Selecting sets a set's node selector, written key=value.
func Selecting(labels ...string) func(*appsv1.DaemonSet) {
	return func(set *appsv1.DaemonSet) {
		selector := map[string]string{}
		for _, each := range labels {
			key, value, _ := strings.Cut(each, "=")
			selector[key] = value
		}
		set.Spec.Template.Spec.NodeSelector = selector
	}
}

// DaemonPod is a set's Ready Pod on a node, made from the template whose hash is
// given.
func DaemonPod(set *appsv1.DaemonSet, node, hash string, changes ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: set.Name + "-" + node, Namespace: set.Namespace, UID: types.UID("pod-" + set.Name + "-" + node + "-" + hash),
			CreationTimestamp: metav1.NewTime(Start),
			Labels:            map[string]string{appsv1.ControllerRevisionHashLabelKey: hash},
			OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))},
		},
		Spec: *set.Spec.Template.Spec.DeepCopy(),
	}
	for key, value := range set.Spec.Template.Labels {
		pod.Labels[key] = value
	}
	pod.Spec.NodeName = node
	SetReady(pod, Start)
	return with(pod, changes)
}

// Named gives a Pod another name and a UID of its own.
func Named(name string) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.Name, pod.UID = name, types.UID("pod-"+name) }
}

// Created makes a Pod that much younger than the rest.
func Created(after time.Duration) func(*v1.Pod) {
	return func(pod *v1.Pod) { pod.CreationTimestamp = metav1.NewTime(Start.Add(after)) }
}

// Unready makes a running Pod one that does not serve.
func Unready(pod *v1.Pod) { setReady(pod, v1.ConditionFalse, Start) }

// Terminating makes a Pod one that is being deleted.
func Terminating(pod *v1.Pod) {
	at := metav1.NewTime(Start)
	pod.DeletionTimestamp = &at
}

// Failed makes a Pod one that its node has ended for the reason given.
func Failed(why string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Status = v1.PodStatus{Phase: v1.PodFailed, Reason: why}
	}
}

// SetReady makes a Pod run and serve since the time given.
func SetReady(pod *v1.Pod, since time.Time) { setReady(pod, v1.ConditionTrue, since) }

func setReady(pod *v1.Pod, status v1.ConditionStatus, since time.Time) {
	pod.Status = v1.PodStatus{
		Phase:      v1.PodRunning,
		Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(since)}},
	}
}

func with[T any](object *T, changes []func(*T)) *T {
	for _, change := range changes {
		change(object)
	}
	return object
}
