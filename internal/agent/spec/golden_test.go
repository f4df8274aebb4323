package spec

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

var rewrite = flag.Bool("rewrite", false, "write the expectations in testdata anew")

// testNode is the node of all tests.
func testNode() Node {
	return Node{
		Hostname: "node-a.example", HostIPs: []string{"192.0.2.10"}, MemoryCapacity: 8 << 30,
		Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("7Gi")},
		APIHost:     "192.0.2.10", APIPort: "6443",
		Resolv:        ParseResolv("nameserver 192.0.2.1\nsearch example\noptions ndots:1 rotate\n"),
		ClusterDomain: "cluster.local",
		HostsFile:     []byte("127.0.0.1\tlocalhost\n192.0.2.10\tnode-a\n"),
		LogRoot:       "/var/log/pods", CgroupRoot: "/muster", SeccompRoot: "/root-dir/seccomp",
	}
}

// testWorld answers lookups: config map settings, secret login, file volumes.
type testWorld struct{}

func (testWorld) Volume(name string) (Volume, bool) {
	return Volume{HostPath: "/pods/" + name, ReadOnly: name == "conf"}, name != "absent"
}

func (testWorld) SubPath(volume, path, container string, index int) (string, error) {
	if path == "refused" {
		return "", fmt.Errorf("not in the volume")
	}
	return fmt.Sprintf("/subpaths/%s/%s/%d/%s", volume, container, index, path), nil
}

func (testWorld) ConfigMap(name string) (*v1.ConfigMap, error) {
	if name != "settings" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return &v1.ConfigMap{Data: map[string]string{"WELCOME": "hello", "a=b": "no name for a variable", "with-dash": "1"}}, nil
}

func (testWorld) Secret(name string) (*v1.Secret, error) {
	switch name {
	case "login":
		return &v1.Secret{Data: map[string][]byte{"password": []byte("s3cret")}}, nil
	case "hidden":
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, name, fmt.Errorf("not yours"))
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

func (testWorld) File(_, path string) ([]byte, error) {
	if path != "vars.env" {
		return nil, fmt.Errorf("reading %s: %w", path, os.ErrNotExist)
	}
	return []byte("# comment\nPLAIN=1\nQUOTED='a b'\nPLAIN=2\n"), nil
}

func (testWorld) services() []v1.Service {
	port := []v1.ServicePort{{Name: "web-ui", Port: 80, Protocol: v1.ProtocolTCP}}
	return []v1.Service{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-api"}, Spec: v1.ServiceSpec{ClusterIP: "10.96.0.7", Ports: port}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "headless"}, Spec: v1.ServiceSpec{ClusterIP: "None", Ports: port}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "other"}, Spec: v1.ServiceSpec{ClusterIP: "10.96.0.8", Ports: port}},
	}
}

func testInput(pod *v1.Pod) ContainerInput {
	return ContainerInput{
		Pod: pod, Container: &pod.Spec.Containers[0], Node: testNode(), Attempt: 2,
		PodIPs: []string{"10.88.0.5"}, ImageRef: "sha256:feed",
		Volumes: testWorld{}, Lookup: testWorld{}, Services: testWorld{}.services(),
		HostsFile: "/root-dir/etc-hosts", TerminationFile: "/root-dir/termination",
	}
}

// TestGolden turns each Pod of testdata into what the runtime is told about it.
// Run with -rewrite to write the expectations anew, and read the difference.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.pod.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no Pods in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".pod.yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			pod := &v1.Pod{}
			if err := yaml.UnmarshalStrict(text, pod); err != nil {
				t.Fatal(err)
			}
			compare(t, strings.Replace(file, ".pod.", ".want.", 1), render(t, pod))
		})
	}
}

// render writes all that becomes of a Pod as one document.
func render(t *testing.T, pod *v1.Pod) []byte {
	t.Helper()
	before := pod.DeepCopy()
	sandbox, err := Sandbox(PodInput{Pod: pod, Node: testNode(), Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	container, err := Container(testInput(pod))
	if err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{}
	for _, variable := range container.Envs {
		environment[variable.Key] = string(variable.Value)
	}
	container.Envs = nil // readable as text only
	out, err := yaml.Marshal(map[string]any{
		"sandbox":     asTree(t, sandbox),
		"container":   asTree(t, container),
		"environment": environment,
		"hosts":       string(HostsFile(pod, testNode(), []string{"10.88.0.5"})),
		"dnsFallback": DNSFallback(pod, testNode()),
	})
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(before, pod); difference != "" {
		t.Errorf("the Pod was changed:\n%s", difference)
	}
	return out
}

func asTree(t *testing.T, message proto.Message) any {
	t.Helper()
	text, err := protojson.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

func compare(t *testing.T, file string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(string(want), string(got)); difference != "" {
		t.Errorf("differs from %s (-want +got):\n%s", file, difference)
	}
}
