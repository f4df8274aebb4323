package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"muster.dev/muster/internal/reason"
)

func newPod(volumes ...v1.Volume) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u-1", Labels: map[string]string{"app": "web"}},
		Spec: v1.PodSpec{
			ServiceAccountName: "default",
			Volumes:            volumes,
			Containers:         []v1.Container{{Name: "app"}},
		},
	}
}

// newManager makes a Manager over a fake API; what it mounts is gone when the test ends.
func newManager(t *testing.T, objects ...runtime.Object) (*Manager, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(objects...)
	m := New(Options{RootDir: t.TempDir(), Client: client, NodeName: "a"})
	t.Cleanup(func() {
		known, err := m.Known()
		if err != nil {
			t.Error(err)
		}
		for _, uid := range known {
			if err := m.Remove(context.Background(), uid); err != nil {
				t.Error(err)
			}
		}
	})
	return m, client
}

func mustPrepare(t *testing.T, m *Manager, pod *v1.Pod) map[string]Mount {
	t.Helper()
	mounts, err := m.Prepare(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	return mounts
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
}

func configMapVolume(name string, source v1.ConfigMapVolumeSource) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{ConfigMap: &source}}
}

func TestEmptyDirKeepsItsContent(t *testing.T) {
	m, _ := newManager(t)
	pod := newPod(v1.Volume{Name: "work", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
	dir := mustPrepare(t, m, pod)["work"].HostPath
	if want := filepath.Join("pods", "u-1", "volumes", "kubernetes.io~empty-dir", "work"); !strings.HasSuffix(dir, want) {
		t.Errorf("emptyDir stands at %s, want …/%s", dir, want)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("mode is %v, %v; want 0777", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kept"), []byte("yes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { // as a database does with its folder
		t.Fatal(err)
	}
	mustPrepare(t, m, pod)
	if got := mustRead(t, filepath.Join(dir, "kept")); got != "yes" {
		t.Errorf("second Prepare changed the content to %q", got)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode is %v, %v; want the Pod's own 0700", info.Mode(), err)
	}
}

func TestMemoryOptions(t *testing.T) {
	for _, test := range []struct {
		source v1.EmptyDirVolumeSource
		group  *int64
		limit  string
		want   string
	}{
		{v1.EmptyDirVolumeSource{}, nil, "", "mode=777"},
		{v1.EmptyDirVolumeSource{Mode: ptr.To[int32](0o1770)}, nil, "", "mode=1770"},
		{v1.EmptyDirVolumeSource{}, ptr.To[int64](5), "64Mi", "mode=2777,gid=5,size=67108864"},
		{v1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("1Mi"))}, nil, "64Mi", "mode=777,size=1048576"},
	} {
		pod := newPod()
		if test.limit != "" {
			pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(test.limit)}
		}
		options := memoryOptions(emptyDirMode(&test.source, test.group), test.group, memorySize(pod, &test.source))
		if got := strings.Join(options, ","); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
}

func TestMemoryEmptyDirIsMountedAndRemoved(t *testing.T) {
	needRoot(t)
	m, _ := newManager(t)
	pod := newPod(v1.Volume{Name: "ram", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}})
	dir := mustPrepare(t, m, pod)["ram"].HostPath
	if mounted, err := m.mounter.IsMountPoint(dir); err != nil || !mounted {
		t.Fatalf("mounted %v, %v; want a tmpfs", mounted, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode() != 0o777|fs.ModeDir {
		t.Errorf("mode is %v, %v; want 0777", info.Mode(), err)
	}
	mustPrepare(t, m, pod)
	if err := m.Remove(t.Context(), pod.UID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(m.podDir(pod.UID)); !os.IsNotExist(err) {
		t.Errorf("Pod folder after Remove: %v, want none", err)
	}
}

func TestConfigMapIsUpdatedAtOnce(t *testing.T) {
	object := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "conf"}, Data: map[string]string{"a": "1", "b": "1"}}
	m, client := newManager(t, object)
	pod := newPod(configMapVolume("conf", v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "conf"}}))
	dir := mustPrepare(t, m, pod)["conf"].HostPath
	before, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil {
		t.Fatal(err)
	}
	mustPrepare(t, m, pod)
	if same, _ := os.Readlink(filepath.Join(dir, dataLink)); same != before {
		t.Errorf("nothing changed, yet %s became %s", before, same)
	}
	object.Data = map[string]string{"a": "2", "c": "2"}
	if _, err := client.CoreV1().ConfigMaps("ns").Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	mustPrepare(t, m, pod)
	if got := mustRead(t, filepath.Join(dir, "a")) + mustRead(t, filepath.Join(dir, "c")); got != "22" {
		t.Errorf("a and c are %q, want 22", got)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 4 { // ..data, its folder, a, c
		t.Errorf("left in the volume: %v", entries)
	}
}

func TestMissingObjectsAreReasons(t *testing.T) {
	ref := v1.LocalObjectReference{Name: "gone"}
	secret := v1.Volume{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "gone"}}}
	claim := v1.Volume{Name: "p", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}}}
	for name, test := range map[string]struct {
		volume v1.Volume
		code   reason.Code
		text   string
	}{
		"config map":   {configMapVolume("c", v1.ConfigMapVolumeSource{LocalObjectReference: ref}), reason.FailedMount, `MountVolume.SetUp failed for volume "c" : configmaps "gone" not found`},
		"secret":       {secret, reason.FailedMount, `MountVolume.SetUp failed for volume "s" : secrets "gone" not found`},
		"volume claim": {claim, reason.UnsupportedVolume, `volume "p" waits: muster does not act on spec.volumes[].persistentVolumeClaim`},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := newManager(t)
			_, err := m.Prepare(t.Context(), newPod(test.volume))
			var wait *NotReady
			if !errors.As(err, &wait) {
				t.Fatalf("got %v, want NotReady", err)
			}
			if wait.Reason.Code != test.code || wait.Error() != test.text {
				t.Errorf("got %s: %s", wait.Reason.Code, wait)
			}
			if wait.Reason.Remedy() == "" {
				t.Error("no remedy")
			}
		})
	}
}

func TestOptionalObjectsMayBeMissing(t *testing.T) {
	m, _ := newManager(t)
	dir := mustPrepare(t, m, newPod(configMapVolume("c", v1.ConfigMapVolumeSource{
		LocalObjectReference: v1.LocalObjectReference{Name: "gone"}, Optional: ptr.To(true),
		Items: []v1.KeyToPath{{Key: "k", Path: "k"}},
	})))["c"].HostPath
	if _, err := os.Stat(filepath.Join(dir, "k")); !os.IsNotExist(err) {
		t.Errorf("file of a missing config map: %v, want none", err)
	}
}

func TestForbiddenIsAWait(t *testing.T) {
	m, client := newManager(t)
	client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("no relationship found"))
	})
	_, err := m.Prepare(t.Context(), newPod(v1.Volume{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}}))
	var wait *NotReady
	if !errors.As(err, &wait) || wait.Reason.Code != reason.VolumeNotPermitted {
		t.Errorf("got %v, want VolumeNotPermitted", err)
	}
}

// tokenServer answers token requests with tokens that live an hour by clock.
func tokenServer(client *fake.Clientset, clock *time.Time, requests *[]authentication.TokenRequest) {
	client.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		request := action.(clienttesting.CreateAction).GetObject().(*authentication.TokenRequest).DeepCopy()
		*requests = append(*requests, *request)
		request.Status.Token = "token-" + string(rune('0'+len(*requests)))
		request.Status.ExpirationTimestamp = metav1.NewTime(clock.Add(time.Hour))
		return true, request, nil
	})
}

func TestTokenIsBoundToThePodAndRenewedAtFourFifths(t *testing.T) {
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var requests []authentication.TokenRequest
	m, client := newManager(t)
	m.options.Now = func() time.Time { return clock }
	tokenServer(client, &clock, &requests)
	pod := newPod(v1.Volume{Name: "t", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", Audience: "api"}},
		{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{{Path: "ns", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}},
	}}}})
	dir := mustPrepare(t, m, pod)["t"].HostPath
	if got := mustRead(t, filepath.Join(dir, "ns")); got != "ns" {
		t.Errorf("downward API file says %q", got)
	}
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "token-1"}, {47 * time.Minute, "token-1"}, {time.Minute, "token-2"}} {
		clock = clock.Add(step.after)
		mustPrepare(t, m, pod)
		if got := mustRead(t, filepath.Join(dir, "token")); got != step.want {
			t.Errorf("at %s the token is %s, want %s", clock, got, step.want)
		}
	}
	if bound := requests[0].Spec.BoundObjectRef; bound == nil || bound.UID != pod.UID || requests[0].Spec.Audiences[0] != "api" {
		t.Errorf("asked for %+v, want a token bound to the Pod for audience api", requests[0].Spec)
	}
}

func TestAnEmptyDirBelongsToThePodsGroup(t *testing.T) {
	needRoot(t)
	m, _ := newManager(t)
	pod := newPod(v1.Volume{Name: "work", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](3000)}
	info, err := os.Stat(mustPrepare(t, m, pod)["work"].HostPath)
	if err != nil {
		t.Fatal(err)
	}
	if gid := info.Sys().(*syscall.Stat_t).Gid; gid != 3000 || info.Mode() != 0o777|fs.ModeSetgid|fs.ModeDir {
		t.Errorf("mode %v, group %d; want a setgid folder of group 3000", info.Mode(), gid)
	}
}
