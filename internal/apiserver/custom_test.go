package apiserver_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/testkit/server"
)

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.test}
spec:
  group: example.test
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1beta1
    served: true
    storage: false
    schema: &schema
      openAPIV3Schema:
        type: object
        properties:
          spec:
            description: What the widget is to be.
            type: object
            properties:
              size: {type: integer, maximum: 10}
  - {name: v1, served: true, storage: true, schema: *schema}
`

const widget = "{apiVersion: example.test/v1, kind: Widget, metadata: {name: w}, spec: {size: 3}}"

// groups is the plain list of groups, as clients without aggregated discovery
// read it.
func groups(t *testing.T, s *server.Server) map[string]metav1.APIGroup {
	t.Helper()
	list := &metav1.APIGroupList{}
	err := owner(t, s).Discovery().RESTClient().Get().AbsPath("/apis").
		SetHeader("Accept", "application/json").Do(soon(t)).Into(list)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]metav1.APIGroup{}
	for _, g := range list.Groups {
		byName[g.Name] = g
	}
	return byName
}

// published says whether a description of a group version is served.
func published(t *testing.T, s *server.Server, path string) bool {
	t.Helper()
	paths, err := owner(t, s).Discovery().OpenAPIV3().Paths()
	if err != nil {
		t.Fatal(err)
	}
	_, there := paths[path]
	return there
}

func TestCustomKindsComeAndGo(t *testing.T) {
	s := server.Shared(t)
	k := newKubectl(t, s)
	k.must(t, widgets, "apply", "-f", "-")
	k.must(t, "", "wait", "--for=condition=Established", "crd/widgets.example.test", "--timeout=30s")
	waitFor(t, "the group in the plain list", func() bool { _, ok := groups(t, s)["example.test"]; return ok })
	if g := groups(t, s)["example.test"]; g.PreferredVersion.Version != "v1" || len(g.Versions) != 2 {
		t.Errorf("the group is %+v", g)
	}
	waitFor(t, "its description", func() bool { return published(t, s, "apis/example.test/v1") })
	if !published(t, s, "apis/apps/v1") || !published(t, s, "apis/apiextensions.k8s.io/v1") {
		t.Error("built-in kinds are no longer described")
	}
	waitFor(t, "its description for old clients", func() bool {
		doc, err := owner(t, s).Discovery().RESTClient().Get().AbsPath("/openapi/v2").
			SetHeader("Accept", "application/json").DoRaw(soon(t))
		return err == nil && strings.Contains(string(doc), "test.example.v1.Widget") &&
			strings.Contains(string(doc), "io.k8s.api.apps.v1.DaemonSet")
	})

	k.must(t, widget, "apply", "-f", "-")
	if out := k.must(t, "", "get", "widgets", "w", "-o", "jsonpath={.spec.size}"); out != "3" {
		t.Errorf("read back %q", out)
	}
	if out := k.must(t, "", "explain", "widget.spec"); !strings.Contains(out, "What the widget is to be.") {
		t.Errorf("explain prints %s", out)
	}
	if _, err := k.run(strings.Replace(widget, "3", "11", 1), "apply", "-f", "-"); err == nil ||
		!strings.Contains(err.Error(), "spec.size in body should be less than or equal to 10") {
		t.Errorf("a wrong widget: %v", err)
	}
	if _, err := k.run(strings.Replace(widget, "size", "sise", 1), "apply", "-f", "-"); err == nil ||
		!strings.Contains(err.Error(), `unknown field "spec.sise"`) {
		t.Errorf("an unknown field: %v", err)
	}

	k.must(t, "", "delete", "crd", "widgets.example.test")
	waitFor(t, "the group to go", func() bool { _, ok := groups(t, s)["example.test"]; return !ok })
	waitFor(t, "its description to go", func() bool { return !published(t, s, "apis/example.test/v1") })
}
