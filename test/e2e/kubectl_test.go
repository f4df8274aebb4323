package e2e_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	appsv1 "k8s.io/api/apps/v1"
)

// kubectl runs the built-in kubectl, fails the test when it fails, and returns stdout.
func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, errOut, err := c.try(nil, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, out, errOut)
	}
	return out
}

// apply applies a manifest in a namespace.
func (c *cluster) apply(t *testing.T, namespace, manifest string) {
	t.Helper()
	out, errOut, err := c.try(&manifest, "apply", "-n", namespace, "-f", "-")
	if err != nil {
		t.Fatalf("kubectl apply: %v\n%s%s", err, out, errOut)
	}
}

// refused applies a manifest that must be refused, and returns kubectl's words.
func (c *cluster) refused(t *testing.T, namespace, manifest string) string {
	t.Helper()
	out, errOut, err := c.try(&manifest, "apply", "-n", namespace, "-f", "-")
	if err == nil {
		t.Fatalf("kubectl apply took a bad manifest: %s", out)
	}
	return errOut
}

func (c *cluster) try(stdin *string, args ...string) (string, string, error) {
	cmd := exec.Command(root("bin/kubectl"), append([]string{"--kubeconfig", c.kubeconfig, "--context", "muster"}, args...)...)
	if stdin != nil {
		cmd.Stdin = strings.NewReader(*stdin)
	}
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	return out.String(), errOut.String(), err
}

// namespace makes a namespace for the test; it goes with the test.
func (c *cluster) namespace(t *testing.T) string {
	t.Helper()
	name := "t-" + rand.String(6)
	c.kubectl(t, "create", "namespace", name)
	t.Cleanup(func() {
		if t.Failed() {
			out, _, _ := c.try(nil, "describe", "pods", "-n", name)
			t.Logf("the Pods of %s:\n%s", name, out)
		}
		c.kubectl(t, "delete", "namespace", name, "--wait=false")
	})
	return name
}

// pod waits until the named Pod is as asked, and returns it.
func (c *cluster) pod(t *testing.T, namespace, name, want string, is func(*v1.Pod) bool) *v1.Pod {
	t.Helper()
	var last *v1.Pod
	until(t, c, &v1.Pod{}, namespace, name, want, func(object runtime.Object) bool {
		last = object.(*v1.Pod)
		return is(last)
	})
	return last
}

// daemon waits until the named DaemonSet is as asked, and returns it.
func (c *cluster) daemon(t *testing.T, namespace, name, want string, is func(*appsv1.DaemonSet) bool) *appsv1.DaemonSet {
	t.Helper()
	var last *appsv1.DaemonSet
	until(t, c, &appsv1.DaemonSet{}, namespace, name, want, func(object runtime.Object) bool {
		last = object.(*appsv1.DaemonSet)
		return is(last)
	})
	return last
}

// until watches one object until it is as asked.
func until(t *testing.T, c *cluster, kind runtime.Object, namespace, name, want string, is func(runtime.Object) bool) {
	t.Helper()
	one := fields.OneTermEqualSelector("metadata.name", name)
	var source cache.Getter
	resource := "pods"
	switch kind.(type) {
	case *appsv1.DaemonSet:
		source, resource = c.client.AppsV1().RESTClient(), "daemonsets"
	default:
		source = c.client.CoreV1().RESTClient()
	}
	var last runtime.Object
	_, err := watchtools.UntilWithSync(c.context(t), cache.NewListWatchFromClient(source, resource, namespace, one), kind, nil,
		func(event watch.Event) (bool, error) {
			last = event.Object
			return event.Type != watch.Deleted && is(event.Object), nil
		})
	if err != nil {
		t.Fatalf("waiting for %s %s/%s to be %s: %v; last seen:\n%s", resource, namespace, name, want, err, summary(last))
	}
}

// eventually asks again and again until something outside the API is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("waited %v in vain until %s", patience, what)
		}
	}
}

func summary(object runtime.Object) string {
	if pod, ok := object.(*v1.Pod); ok {
		return pod.Status.String()
	}
	if set, ok := object.(*appsv1.DaemonSet); ok {
		return set.Status.String()
	}
	return "(nothing)"
}

func ready(pod *v1.Pod) bool { return condition(pod, v1.PodReady) == v1.ConditionTrue }

func condition(pod *v1.Pod, kind v1.PodConditionType) v1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
