package stock_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"muster.dev/muster/internal/testkit/server"
)

func daemonSet(name string) *appsv1.DaemonSet {
	labels := map[string]string{"app": name}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
}

func TestADeletedNamespaceIsEmptiedAndGoes(t *testing.T) {
	_, c := cluster(t)
	ctx := soon(t)
	namespace(t, c, "doomed")
	configMap(t, c, "doomed", "a")
	if _, err := c.AppsV1().DaemonSets("doomed").Create(ctx, daemonSet("d"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.CoreV1().Namespaces().Delete(ctx, "doomed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the namespace to go", func() bool {
		_, err := c.CoreV1().Namespaces().Get(ctx, "doomed", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if left, err := c.AppsV1().DaemonSets("doomed").List(ctx, metav1.ListOptions{}); err != nil || len(left.Items) != 0 {
		t.Errorf("left behind: %v, %v", left.Items, err)
	}
}

func TestWhatAnOwnersDeletionTakesAlong(t *testing.T) {
	_, c := cluster(t)
	namespace(t, c, "owners")
	remove := func(name string, policy metav1.DeletionPropagation) {
		t.Helper()
		err := c.CoreV1().ConfigMaps("owners").Delete(soon(t), name, metav1.DeleteOptions{PropagationPolicy: &policy})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Run("background: the owner at once, its own after it", func(t *testing.T) {
		owner := configMap(t, c, "owners", "back")
		configMap(t, c, "owners", "back-child", owner)
		remove("back", metav1.DeletePropagationBackground)
		if !gone(t, c, "owners", "back") {
			t.Error("the owner is still there")
		}
		waitFor(t, "the child to go", func() bool { return gone(t, c, "owners", "back-child") })
	})
	t.Run("foreground: its own first, the owner last", func(t *testing.T) {
		owner := configMap(t, c, "owners", "fore")
		child := configMap(t, c, "owners", "fore-child", owner)
		// The child is held; so long the owner must stay.
		child.Finalizers = []string{"example.test/hold"}
		child, err := c.CoreV1().ConfigMaps("owners").Update(soon(t), child, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		remove("fore", metav1.DeletePropagationForeground)
		waitFor(t, "the child's deletion to begin", func() bool {
			child, err = c.CoreV1().ConfigMaps("owners").Get(soon(t), "fore-child", metav1.GetOptions{})
			return err == nil && child.DeletionTimestamp != nil
		})
		if gone(t, c, "owners", "fore") {
			t.Fatal("the owner went before its child")
		}
		child.Finalizers = nil
		if _, err := c.CoreV1().ConfigMaps("owners").Update(soon(t), child, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the owner to go", func() bool { return gone(t, c, "owners", "fore") })
	})
	t.Run("orphan: the owner only", func(t *testing.T) {
		owner := configMap(t, c, "owners", "lone")
		configMap(t, c, "owners", "lone-child", owner)
		remove("lone", metav1.DeletePropagationOrphan)
		waitFor(t, "the owner to go", func() bool { return gone(t, c, "owners", "lone") })
		child, err := c.CoreV1().ConfigMaps("owners").Get(soon(t), "lone-child", metav1.GetOptions{})
		if err != nil || len(child.OwnerReferences) != 0 {
			t.Errorf("the child is now %v (%v)", child, err)
		}
	})
	t.Run("one of two owners: the object stays", func(t *testing.T) {
		one, two := configMap(t, c, "owners", "one"), configMap(t, c, "owners", "two")
		configMap(t, c, "owners", "both", one, two)
		remove("one", metav1.DeletePropagationBackground)
		waitFor(t, "the gone owner's reference to be dropped", func() bool {
			m, err := c.CoreV1().ConfigMaps("owners").Get(soon(t), "both", metav1.GetOptions{})
			return err == nil && len(m.OwnerReferences) == 1 && m.OwnerReferences[0].UID == two.UID
		})
	})
	t.Run("an owner that never was: the object goes", func(t *testing.T) {
		configMap(t, c, "owners", "orphaned", &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "never", UID: "00000000-0000-0000-0000-000000000000"}})
		waitFor(t, "it to go", func() bool { return gone(t, c, "owners", "orphaned") })
	})
}

func TestPodsGoWithTheirDaemonSet(t *testing.T) {
	_, c := cluster(t)
	ctx := soon(t)
	namespace(t, c, "daemons")
	ds, err := c.AppsV1().DaemonSets("daemons").Create(ctx, daemonSet("d"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "d-1", Labels: ds.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ds, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))},
		},
		Spec: ds.Spec.Template.Spec,
	}
	if _, err := c.CoreV1().Pods("daemons").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.AppsV1().DaemonSets("daemons").Delete(ctx, "d", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the Pod to go", func() bool {
		_, err := c.CoreV1().Pods("daemons").Get(ctx, "d-1", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// widgetKind makes a custom kind and returns the way to its objects.
func widgetKind(t *testing.T, s *server.Server) dynamic.NamespaceableResourceInterface {
	t.Helper()
	extensions, err := apiextensions.NewForConfig(s.Client())
	if err != nil {
		t.Fatal(err)
	}
	preserve := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.test"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.test", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve}},
			}},
		},
	}
	if _, err := extensions.ApiextensionsV1().CustomResourceDefinitions().Create(soon(t), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		crds := extensions.ApiextensionsV1().CustomResourceDefinitions()
		if err := crds.Delete(context.Background(), crd.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		waitFor(t, "the custom kind to go", func() bool {
			_, err := crds.Get(context.Background(), crd.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	})
	client, err := dynamic.NewForConfig(s.Client())
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Group: "example.test", Version: "v1", Resource: "widgets"})
}

func TestCustomKindsTakePart(t *testing.T) {
	s, c := cluster(t)
	namespace(t, c, "custom")
	widgets := widgetKind(t, s)
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.test/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}}}
	waitFor(t, "the kind to be served", func() bool {
		made, err := widgets.Namespace("custom").Create(soon(t), widget, metav1.CreateOptions{})
		if err == nil {
			widget = made
		}
		return err == nil
	})
	owned := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "example.test/v1", Kind: "Widget", Name: "w", UID: widget.GetUID()}}}}
	if _, err := c.CoreV1().ConfigMaps("custom").Create(soon(t), owned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := widgets.Namespace("custom").Delete(soon(t), "w", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The kinds are read anew every ten seconds.
	waitFor(t, "what a widget owned to go", func() bool { return gone(t, c, "custom", "owned") })
	deleteNamespace(t, c, "custom")
}

func deleteNamespace(t *testing.T, c kubernetes.Interface, name string) {
	t.Helper()
	if err := c.CoreV1().Namespaces().Delete(soon(t), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the namespace "+name+" to go", func() bool {
		_, err := c.CoreV1().Namespaces().Get(soon(t), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
