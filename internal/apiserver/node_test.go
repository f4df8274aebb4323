package apiserver_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"muster.dev/muster/internal/testkit/server"
)

// nodePod makes a Pod bound to a node that uses the given Secret.
func nodePod(t *testing.T, c kubernetes.Interface, node, name, secret string) {
	t.Helper()
	_, err := c.CoreV1().ServiceAccounts("nodes").Create(soon(t), &v1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	_, err = c.CoreV1().Secrets("nodes").Create(soon(t), &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secret}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.CoreV1().Pods("nodes").Create(soon(t), &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{
			NodeName:   node,
			Containers: []v1.Container{{Name: "c", Image: "i"}},
			Volumes:    []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: secret}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestANodeReachesItsOwnAndNoMore(t *testing.T) {
	s := server.Shared(t)
	c := owner(t, s)
	ctx := soon(t)
	if _, err := c.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "nodes"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	one, two := newClient(t, s, "n1"), newClient(t, s, "n2")
	for name, client := range map[string]kubernetes.Interface{"n1": one, "n2": two} {
		if _, err := client.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s cannot register: %v", name, err)
		}
	}
	nodePod(t, c, "n1", "p1", "s1")
	nodePod(t, c, "n2", "p2", "s2")
	waitFor(t, "the authorizer to see the Pods", func() bool {
		_, err := two.CoreV1().Secrets("nodes").Get(ctx, "s2", metav1.GetOptions{})
		return err == nil
	})

	allowed := map[string]func() error{
		"read its Pod's Secret": func() error {
			_, err := one.CoreV1().Secrets("nodes").Get(ctx, "s1", metav1.GetOptions{})
			return err
		},
		"list its Pods": func() error {
			_, err := one.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=n1"})
			return err
		},
		"report its Pod": func() error {
			_, err := one.CoreV1().Pods("nodes").Patch(ctx, "p1", "application/merge-patch+json", []byte(`{"status":{"message":"m"}}`), metav1.PatchOptions{}, "status")
			return err
		},
		"report itself": func() error {
			_, err := one.CoreV1().Nodes().Patch(ctx, "n1", "application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
			return err
		},
		"renew its lease": func() error {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
			_, err := one.CoordinationV1().Leases(v1.NamespaceNodeLease).Create(ctx, lease, metav1.CreateOptions{})
			return err
		},
		"take a token for its Pod": func() error { return takeToken(one, t, "p1") },
	}
	for what, do := range allowed {
		if err := do(); err != nil {
			t.Errorf("n1 cannot %s: %v", what, err)
		}
	}
	forbidden := map[string]func() error{
		"read another node's Secret": func() error {
			_, err := one.CoreV1().Secrets("nodes").Get(ctx, "s2", metav1.GetOptions{})
			return err
		},
		"list Secrets": func() error {
			_, err := one.CoreV1().Secrets("nodes").List(ctx, metav1.ListOptions{})
			return err
		},
		"list all Pods": func() error {
			_, err := one.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			return err
		},
		"take another node's lease": func() error {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}
			_, err := one.CoordinationV1().Leases(v1.NamespaceNodeLease).Create(ctx, lease, metav1.CreateOptions{})
			return err
		},
		"report another node": func() error {
			_, err := one.CoreV1().Nodes().Patch(ctx, "n2", "application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
			return err
		},
		"report another node's Pod": func() error {
			_, err := one.CoreV1().Pods("nodes").Patch(ctx, "p2", "application/merge-patch+json", []byte(`{"status":{"message":"m"}}`), metav1.PatchOptions{}, "status")
			return err
		},
		"delete another node's Pod": func() error {
			return one.CoreV1().Pods("nodes").Delete(ctx, "p2", metav1.DeleteOptions{})
		},
		"drop its own taints": func() error {
			_, err := one.CoreV1().Nodes().Patch(ctx, "n1", "application/merge-patch+json", []byte(`{"spec":{"taints":[]}}`), metav1.PatchOptions{})
			return err
		},
		"take a token for another node's Pod": func() error { return takeToken(one, t, "p2") },
		"make a daemon":                       func() error { return one.AppsV1().DaemonSets("nodes").Delete(ctx, "x", metav1.DeleteOptions{}) },
	}
	for what, do := range forbidden {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("n1 may %s: %v", what, err)
		}
	}
	node, err := c.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
	if err != nil || len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != v1.TaintNodeNotReady {
		t.Errorf("a new node has the taints %v (%v)", node.Spec.Taints, err)
	}
}

// takeToken asks for a token bound to a Pod.
func takeToken(c kubernetes.Interface, t *testing.T, pod string) error {
	own, err := c.CoreV1().Pods("nodes").Get(soon(t), pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, err = c.CoreV1().ServiceAccounts("nodes").CreateToken(soon(t), "default", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod, UID: own.UID},
		}}, metav1.CreateOptions{})
	return err
}
