package volume

import (
	"io/fs"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"muster.dev/muster/internal/agent/downward"
)

func TestConfigMapPayload(t *testing.T) {
	object := &v1.ConfigMap{Data: map[string]string{"a": "1", "b": "2"}, BinaryData: map[string][]byte{"c": {0, 1}}}
	for name, test := range map[string]struct {
		object   *v1.ConfigMap
		items    []v1.KeyToPath
		mode     *int32
		optional bool
		want     Payload
		failure  string
	}{
		"every key": {object: object, want: Payload{
			"a": {Data: []byte("1"), Mode: 0o644}, "b": {Data: []byte("2"), Mode: 0o644}, "c": {Data: []byte{0, 1}, Mode: 0o644}}},
		"items with modes": {object: object, mode: ptr.To[int32](0o400),
			items: []v1.KeyToPath{{Key: "a", Path: "x/y"}, {Key: "b", Path: "z", Mode: ptr.To[int32](0o755)}},
			want:  Payload{"x/y": {Data: []byte("1"), Mode: 0o400}, "z": {Data: []byte("2"), Mode: 0o755}}},
		"missing key": {object: object, items: []v1.KeyToPath{{Key: "q", Path: "q"}},
			failure: "configmap references non-existent config key: q"},
		"missing key, optional": {object: object, items: []v1.KeyToPath{{Key: "q", Path: "q"}, {Key: "a", Path: "a"}}, optional: true,
			want: Payload{"a": {Data: []byte("1"), Mode: 0o644}}},
		"missing object": {items: []v1.KeyToPath{{Key: "a", Path: "a"}}, optional: true, want: Payload{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ConfigMapPayload(test.object, test.items, test.mode, &test.optional)
			if test.failure != "" {
				if err == nil || err.Error() != test.failure {
					t.Errorf("got %v, want %s", err, test.failure)
				}
				return
			}
			if difference := cmp.Diff(test.want, got); err != nil || difference != "" {
				t.Errorf("%v\n%s", err, difference)
			}
		})
	}
}

func TestSecretPayloadNamesTheMissingKey(t *testing.T) {
	_, err := SecretPayload(&v1.Secret{}, []v1.KeyToPath{{Key: "k", Path: "k"}}, nil, nil)
	if err == nil || err.Error() != "references non-existent secret key: k" {
		t.Errorf("got %v", err)
	}
}

func TestDownwardPayload(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Labels: map[string]string{"b": "2", "a": "1"}, Annotations: map[string]string{"note": "quote\""},
	}}
	pod.Spec.Containers = []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m")},
	}}}
	facts := downward.Facts{Allocatable: v1.ResourceList{v1.ResourceMemory: resource.MustParse("3Gi")}}
	field := func(path string) v1.DownwardAPIVolumeFile {
		return v1.DownwardAPIVolumeFile{Path: path, FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}
	}
	amount := func(name, divisor string) v1.DownwardAPIVolumeFile {
		return v1.DownwardAPIVolumeFile{Path: name, ResourceFieldRef: &v1.ResourceFieldSelector{
			ContainerName: "app", Resource: name, Divisor: resource.MustParse(divisor)}}
	}
	payload, err := DownwardPayload(pod, []v1.DownwardAPIVolumeFile{
		field("metadata.labels"), field("metadata.labels['a']"), field("metadata.annotations"),
		amount("requests.cpu", "1m"), amount("limits.memory", "1Gi"),
	}, ptr.To[int32](0o600), facts)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"metadata.labels": "a=\"1\"\nb=\"2\"", "metadata.labels['a']": "1", "metadata.annotations": `note="quote\""`,
		"requests.cpu": "250", "limits.memory": "3",
	}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if got := payload[path]; string(got.Data) != want[path] || got.Mode != fs.FileMode(0o600) {
			t.Errorf("%s is %q with mode %v, want %q", path, got.Data, got.Mode, want[path])
		}
	}
	if _, err := DownwardPayload(pod, []v1.DownwardAPIVolumeFile{field("spec.hostname")}, nil, facts); err == nil {
		t.Error("a field that the downward API does not offer was answered")
	}
}

func TestTokensAreReadByTheirOwnerOnly(t *testing.T) {
	user := func(ids ...*int64) *v1.Pod {
		pod := &v1.Pod{}
		for _, id := range ids {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{SecurityContext: &v1.SecurityContext{RunAsUser: id}})
		}
		return pod
	}
	grouped := user(nil)
	grouped.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](5)}
	inherited := user(nil, nil)
	inherited.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr.To[int64](7)}
	for name, test := range map[string]struct {
		pod   *v1.Pod
		mode  fs.FileMode
		owner *int64
	}{
		"nobody in particular": {user(nil), 0o644, nil},
		"one user":             {user(ptr.To[int64](7), ptr.To[int64](7)), 0o600, ptr.To[int64](7)},
		"the Pod's user":       {inherited, 0o600, ptr.To[int64](7)},
		"two users":            {user(ptr.To[int64](7), ptr.To[int64](8)), 0o644, nil},
		"one says nothing":     {user(ptr.To[int64](7), nil), 0o644, nil},
		"a group":              {grouped, 0o600, nil},
	} {
		want := File{Data: []byte("t"), Mode: test.mode, Owner: test.owner}
		if difference := cmp.Diff(want, tokenFile(test.pod, "t", nil)); difference != "" {
			t.Errorf("%s:\n%s", name, difference)
		}
	}
}
