package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
	"muster.dev/muster/internal/runtime/fake"
)

// plant makes a Pod in the runtime of which the agent has no memory.
func (n *testNode) plant(t *testing.T, uid string, annotations map[string]string) types.UID {
	t.Helper()
	sandbox := &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: "planted-" + uid, Namespace: "default", Uid: uid},
		Labels: map[string]string{
			"io.kubernetes.pod.name": "planted-" + uid, "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": uid,
		},
		Annotations: annotations,
		Linux:       &cri.LinuxPodSandboxConfig{},
	}
	id, err := n.runtime.RunSandbox(t.Context(), sandbox, "")
	if err != nil {
		t.Fatal(err)
	}
	container, err := n.runtime.CreateContainer(t.Context(), id, &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: "main"}, Image: &cri.ImageSpec{Image: "example.test/app:1"},
		Labels: map[string]string{
			"io.kubernetes.pod.name": "planted-" + uid, "io.kubernetes.pod.namespace": "default",
			"io.kubernetes.pod.uid": uid, "io.kubernetes.container.name": "main",
		},
	}, sandbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.runtime.StartContainer(t.Context(), container); err != nil {
		t.Fatal(err)
	}
	return types.UID(uid)
}

// An agent that lost its memory still ends what its root folder's agents made,
// with grace, and nobody else's.
func TestOnlyOwnOrphansEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.script = func(fake.Start) fake.Run { return fake.Run{StopDelay: 3 * time.Second} }
		own := n.plant(t, "own", map[string]string{ownerAnnotation: n.config.RootDir})
		foreign := n.plant(t, "foreign", map[string]string{ownerAnnotation: "/somewhere/else"})
		nobodys := n.plant(t, "nobodys", nil)
		defer n.start(t)()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for uid, want := range map[types.UID]int{own: 0, foreign: 1, nobodys: 1} {
			held, err := n.runtime.Pod(t.Context(), uid)
			if err != nil {
				t.Fatal(err)
			}
			if len(held.Containers) != want || (want == 1 && held.Containers[0].State != runtime.Running) {
				t.Errorf("of Pod %s there is %+v", uid, held.Containers)
			}
		}
	})
}

// Folders without a Pod, whatever they hold, go at the start.
func TestOrphanFoldersGo(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		var left []string
		for i, path := range []string{"pods/gone-0/volumes/kubernetes.io~empty-dir/work", "journals/gone-1", "pods/gone-2", "journals/gone-2"} {
			dir := filepath.Join(n.config.RootDir, path)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "journal"), fmt.Append(nil, "not a journal ", i), 0o600); err != nil {
				t.Fatal(err)
			}
			left = append(left, dir)
		}
		defer n.start(t)()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, dir := range left {
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s is still there: %v", dir, err)
			}
		}
	})
}

// A Pod that the API forgot while no agent ran ends by the object kept of it: here
// with its own grace period, by its own order.
func TestForgottenPodEndsByItsKeptObject(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.script = func(fake.Start) fake.Run { return fake.Run{Stubborn: true} }
		stop := n.start(t)
		pod := testPod(apps("main"), func(p *v1.Pod) { *p.Spec.TerminationGracePeriodSeconds = 12 })
		n.api.create(t, pod)
		n.await(t, pod, time.Minute, "Ready", ready)
		stop()
		n.api.forceDelete(t, pod)
		defer n.start(t)()
		began := time.Now()
		n.awaitDisk(t, pod, time.Minute, func(d disk) bool { return d == disk{} })
		if took := time.Since(began); took < 12*time.Second || took > 13*time.Second {
			t.Errorf("a stubborn container with 12 s of grace was ended after %v", took)
		}
	})
}

// The grace period goes on where the agent before left it.
func TestGraceGoesOnAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.script = func(fake.Start) fake.Run { return fake.Run{Stubborn: true} }
		stop := n.start(t)
		pod := testPod(apps("main"))
		n.api.create(t, pod)
		n.await(t, pod, time.Minute, "Ready", ready)
		n.api.delete(t, pod, 30)
		began := time.Now()
		time.Sleep(20 * time.Second)
		stop()
		defer n.start(t)()
		n.awaitDisk(t, pod, time.Minute, func(d disk) bool { return d == disk{} })
		if took := time.Since(began); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("with 30 s of grace the container was ended after %v", took)
		}
	})
}
