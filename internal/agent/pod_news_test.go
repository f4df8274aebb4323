package agent

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Pod that asks for a cluster DNS where there is none is told so, and so is one
// whose sandbox is made anew.
func TestSandboxNews(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		defer n.start(t)()
		clusterFirst := func(p *v1.Pod) { p.Spec.DNSPolicy = v1.DNSClusterFirst }
		pod := testPod(apps("main"), clusterFirst)
		n.api.create(t, pod)
		n.await(t, pod, time.Minute, "Ready", ready)
		n.awaitEvent(t, pod, "MissingClusterDNS")
		n.runtime.LoseSandbox(n.held(t, pod).Sandboxes[0].ID)
		n.awaitEvent(t, pod, "SandboxChanged")

		host := testPod(apps("main"), clusterFirst, func(p *v1.Pod) { p.Spec.HostNetwork = true })
		n.api.create(t, host)
		n.await(t, host, time.Minute, "Ready", ready)
		n.awaitEvent(t, host, "Started")
		if e := n.event(t, host, "MissingClusterDNS"); e != nil {
			t.Errorf("a Pod with the host's network is told: %s", e.Message)
		}
	})
}

// A limit that nothing enforces is told, by its field; one that is enforced is not.
func TestUnenforcedLimitsAreTold(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		defer n.start(t)()
		size := resource.MustParse("1Mi")
		pod := testPod(apps("main"), func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{
				{Name: "free", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "disk", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &size}}},
				{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &size, Medium: v1.StorageMediumMemory}}},
			}
			p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: size}
		})
		want := []string{"spec.volumes[1].emptyDir.sizeLimit (disk)", "spec.containers[0].resources.limits.ephemeral-storage (main)"}
		if got := unenforced(pod); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		pod.Spec.Volumes = pod.Spec.Volumes[:2] // this node mounts no tmpfs
		n.api.create(t, pod)
		n.awaitEvent(t, pod, "UnenforcedLimit")
	})
}

// A volume that muster never acts on is waited for with the field and the remedy.
func TestUnservedVolumeNamesItsRemedy(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		defer n.start(t)()
		pod := testPod(apps("main"), func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/"}}}}
		})
		n.api.create(t, pod)
		n.awaitEvent(t, pod, "FailedMount")
		message := n.event(t, pod, "FailedMount").Message
		for _, part := range []string{"data", "nfs", "emptyDir, hostPath"} {
			if !strings.Contains(message, part) {
				t.Errorf("%q does not say %q", message, part)
			}
		}
	})
}

// A Pod whose name is too long for a log folder never starts, and can be deleted.
func TestPodWithoutALogFolderEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		defer n.start(t)()
		pod := testPod(apps("main"), func(p *v1.Pod) { p.Name = strings.Repeat("x", 250) })
		n.api.create(t, pod)
		n.awaitEvent(t, pod, "FailedCreatePodSandBox")
		n.api.delete(t, pod, 1)
		n.await(t, pod, time.Minute, "gone", isGone)
		n.awaitDisk(t, pod, time.Minute, func(d disk) bool { return d == disk{} })
	})
}

// Whoever cleans up logs may take the folder of the links away.
func TestLogLinksAreMadeAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		defer n.start(t)()
		synctest.Wait()
		if err := os.RemoveAll(n.config.ContainerLogsDir); err != nil {
			t.Fatal(err)
		}
		pod := testPod(apps("main"))
		n.api.create(t, pod)
		n.await(t, pod, time.Minute, "Ready", ready)
	})
}

func TestResolverLooksBehindTheStub(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	behind := write("behind", "nameserver 10.0.0.1\n")
	for name, row := range map[string]struct {
		ordinary, behind, want string
	}{
		"the stub alone":          {"nameserver 127.0.0.53\noptions edns0\n", behind, "10.0.0.1"},
		"a real name server":      {"nameserver 10.0.0.2\n", behind, "10.0.0.2"},
		"one beside the stub":     {"nameserver 127.0.0.53\nnameserver 10.0.0.2\n", behind, "127.0.0.53 10.0.0.2"},
		"nothing behind the stub": {"nameserver 127.0.0.53\n", filepath.Join(dir, "none"), "127.0.0.53"},
		"a resolver of its own":   {"nameserver 127.0.0.1\n", behind, "127.0.0.1"},
		"no name server at all":   {"search example.test\n", behind, ""},
	} {
		got := resolver(write("ordinary", row.ordinary), row.behind)
		if strings.Join(got.Servers, " ") != row.want {
			t.Errorf("%s: %v, want %s", name, got.Servers, row.want)
		}
	}
}

// event is the newest event of this reason about a Pod; nil when there is none.
func (n *testNode) event(t *testing.T, pod *v1.Pod, reason string) *v1.Event {
	t.Helper()
	list, err := n.api.CoreV1().Events(pod.Namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(list.Items) {
		if e.InvolvedObject.UID == pod.UID && e.Reason == reason {
			return &e
		}
	}
	return nil
}
