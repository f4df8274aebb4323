package apiserver_test

import (
	"context"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"muster.dev/muster/internal/testkit/server"
)

// mayRead asks whether a user may get a subresource of an object.
func mayRead(ctx context.Context, t *testing.T, c kubernetes.Interface, user, resource, subresource, name string) bool {
	t.Helper()
	answer, err := c.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "get", Version: "v1", Resource: resource, Subresource: subresource, Name: name}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Allowed
}

func TestAPodIsBoundOnce(t *testing.T) {
	c := owner(t, server.Shared(t))
	ctx := soon(t)
	space(t, c, "binding", nil)
	if _, err := c.CoreV1().Pods("binding").Create(ctx, plainPod(func(*v1.Pod) {}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bind := func(node string) error {
		return c.CoreV1().Pods("binding").Bind(ctx, &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: v1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{})
	}
	if err := bind("b1"); err != nil {
		t.Fatal(err)
	}
	if err := bind("b2"); !apierrors.IsConflict(err) {
		t.Errorf("a second binding: %v", err)
	}
	pod, err := c.CoreV1().Pods("binding").Get(ctx, "p", metav1.GetOptions{})
	if err != nil || pod.Spec.NodeName != "b1" {
		t.Errorf("it is bound to %q (%v)", pod.Spec.NodeName, err)
	}
}

func TestABudgetHoldsAnEvictionBack(t *testing.T) {
	c := owner(t, server.Shared(t))
	ctx := soon(t)
	space(t, c, "evictions", nil)
	pod, err := c.CoreV1().Pods("evictions").Create(ctx, plainPod(func(p *v1.Pod) {
		p.Labels = map[string]string{"app": "kept"}
		p.Spec.NodeName = "n"
	}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = v1.PodRunning
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	if _, err := c.CoreV1().Pods("evictions").UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	none := intstr.FromInt32(0)
	budget, err := c.PolicyV1().PodDisruptionBudgets("evictions").Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &none, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "kept"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	allow := func(disruptions int32) {
		t.Helper()
		budget.Status.ObservedGeneration, budget.Status.DisruptionsAllowed = budget.Generation, disruptions
		if budget, err = c.PolicyV1().PodDisruptionBudgets("evictions").UpdateStatus(ctx, budget, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	evict := func() error {
		return c.CoreV1().Pods("evictions").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
	}
	allow(0)
	if err := evict(); !apierrors.IsTooManyRequests(err) {
		t.Errorf("an eviction against the budget: %v", err)
	}
	allow(1)
	if err := evict(); err != nil {
		t.Errorf("an eviction within the budget: %v", err)
	}
	gone, err := c.CoreV1().Pods("evictions").Get(ctx, "p", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) && (err != nil || gone.DeletionTimestamp == nil) {
		t.Errorf("it was not evicted: %v (%v)", gone, err)
	}
}

func TestStatusIsWrittenApartFromSpec(t *testing.T) {
	c := owner(t, server.Shared(t))
	ctx := soon(t)
	space(t, c, "statuses", nil)
	pod, err := c.CoreV1().Pods("statuses").Create(ctx, plainPod(func(*v1.Pod) {}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stale := pod.DeepCopy()
	pod.Status.Message = "first"
	pod.Spec.Containers[0].Image = "not by this way"
	if pod, err = c.CoreV1().Pods("statuses").UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if pod.Status.Message != "first" || pod.Spec.Containers[0].Image != "i" {
		t.Errorf("it is now %q with %q", pod.Status.Message, pod.Spec.Containers[0].Image)
	}
	stale.Status.Message = "second"
	_, err = c.CoreV1().Pods("statuses").UpdateStatus(ctx, stale, metav1.UpdateOptions{})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "the object has been modified") {
		t.Errorf("a write on a stale read: %v", err)
	}
}
