package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/runtime/cri"
	"muster.dev/muster/internal/runtime/runtimetest"
)

// TestRealPod runs a Pod with init steps on a real containerd, from its API
// object to Ready and back to nothing.
func TestRealPod(t *testing.T) {
	machine := startMachine(t)
	machine.start(t)
	shared := func(c *v1.Container) {
		c.VolumeMounts = []v1.VolumeMount{{Name: "work", MountPath: "/work"}}
	}
	pod := testPod(inits("first", "second"), apps("main"), func(pod *v1.Pod) {
		pod.Spec.Volumes = []v1.Volume{{Name: "work", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		for i, args := range [][]string{
			{"print", "one", "write", "/work/one", "1", "write", "/dev/termination-log", "first is done"},
			{"print", "two", "write", "/work/two", "2"},
		} {
			pod.Spec.InitContainers[i].Args = args
			shared(&pod.Spec.InitContainers[i])
		}
		pod.Spec.Containers[0].Args = []string{"print", "up", "wait", "0"}
		shared(&pod.Spec.Containers[0])
	})
	useImage(pod, runtimetest.ProgImage)
	machine.api.create(t, pod)
	running := machine.await(t, pod, "Ready", isReady)

	for i, name := range []string{"first", "second"} {
		s := running.Status.InitContainerStatuses[i]
		if s.Name != name || s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 || s.RestartCount != 0 {
			t.Errorf("init step %s: %+v", name, s)
		}
	}
	first, second := running.Status.InitContainerStatuses[0].State.Terminated, running.Status.InitContainerStatuses[1].State.Terminated
	if second.StartedAt.Before(&first.FinishedAt) {
		t.Errorf("the second step started at %v, before the first ended at %v", second.StartedAt, first.FinishedAt)
	}
	if first.Message != "first is done" {
		t.Errorf("termination message %q", first.Message)
	}
	link := filepath.Join(machine.config.ContainerLogsDir, fmt.Sprintf("%s_default_main-%s.log", pod.Name,
		strings.TrimPrefix(running.Status.ContainerStatuses[0].ContainerID, "containerd://")))
	runtimetest.Await(t, "the log by its link", func() (bool, string) {
		text, err := os.ReadFile(link)
		return err == nil && strings.Contains(string(text), " stdout F up\n"), fmt.Sprintf("%q, %v", text, err)
	})

	machine.api.delete(t, pod, 5)
	machine.awaitGone(t, pod)
	for _, path := range []string{
		filepath.Join(machine.config.RootDir, "pods", string(pod.UID)),
		filepath.Join(machine.config.RootDir, "journals", string(pod.UID)),
		filepath.Join(machine.config.PodLogsDir, "default_"+pod.Name+"_"+string(pod.UID)), link,
	} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}

// TestRealRestartAndLoss stops the agent in the middle of an init step and starts
// another: the step goes on. Then the sandbox is stopped behind the agent's back:
// every step runs again.
func TestRealRestartAndLoss(t *testing.T) {
	machine := startMachine(t)
	stop := machine.start(t)
	pod := testPod(inits("first", "second"), apps("main"))
	pod.Spec.InitContainers[0].Args = []string{"print", "one"}
	pod.Spec.InitContainers[1].Args = []string{"sleep", "2s"}
	useImage(pod, runtimetest.ProgImage)
	machine.api.create(t, pod)
	second := machine.await(t, pod, "in its second step", func(p *v1.Pod) bool {
		return len(p.Status.InitContainerStatuses) == 2 && p.Status.InitContainerStatuses[1].State.Running != nil
	}).Status.InitContainerStatuses[1]
	stop()
	machine.start(t)
	got := machine.await(t, pod, "Ready", isReady)
	if s := got.Status.InitContainerStatuses[1]; s.ContainerID != second.ContainerID || s.RestartCount != 0 {
		t.Errorf("the second step was %+v, is %+v", second, s)
	}

	client, err := cri.New(cri.Options{Endpoint: machine.containerd.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	held, err := client.Pod(t.Context(), pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.StopSandbox(t.Context(), held.Sandboxes[0].ID); err != nil {
		t.Fatal(err)
	}
	// The app may have been started once more in the sandbox that was going down.
	got = machine.await(t, pod, "Ready in a new sandbox", func(p *v1.Pod) bool {
		return isReady(p) && p.Status.InitContainerStatuses[0].RestartCount > 0
	})
	for _, s := range got.Status.InitContainerStatuses {
		if s.RestartCount != 1 || s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
			t.Errorf("step %s after the loss: %+v", s.Name, s)
		}
	}
	machine.api.delete(t, pod, 2)
	machine.awaitGone(t, pod)
}

// TestRealContainerdRestart kills containerd under a running Pod: the node says so,
// nothing happens to the Pod, and both go on when containerd is back.
func TestRealContainerdRestart(t *testing.T) {
	machine := startMachine(t)
	machine.start(t)
	pod := testPod(inits("first"), apps("main"))
	pod.Spec.InitContainers[0].Args = []string{"print", "one"}
	useImage(pod, runtimetest.ProgImage)
	machine.api.create(t, pod)
	before := machine.await(t, pod, "Ready", isReady).Status.ContainerStatuses[0]
	machine.containerd.Kill(t)
	machine.awaitNode(t, v1.ConditionFalse)
	machine.containerd.Start(t)
	machine.awaitNode(t, v1.ConditionTrue)
	after := machine.await(t, pod, "Ready", isReady).Status.ContainerStatuses[0]
	if before.ContainerID != after.ContainerID || after.RestartCount != 0 {
		t.Errorf("the app was %+v, is %+v", before, after)
	}
	machine.api.delete(t, pod, 2)
	machine.awaitGone(t, pod)
}

func (m *realMachine) awaitNode(t *testing.T, ready v1.ConditionStatus) {
	t.Helper()
	runtimetest.Await(t, "the node's Ready to be "+string(ready), func() (bool, string) {
		node, err := m.api.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		c := condition(node.Status, v1.NodeReady)
		return c != nil && c.Status == ready, fmt.Sprintf("%+v", c)
	})
}

// realMachine is a containerd, an API and the agent's folders, which outlive agents.
type realMachine struct {
	api        *fakeAPI
	containerd *runtimetest.Containerd
	config     Config
}

func startMachine(t *testing.T) *realMachine {
	t.Helper()
	ctd := runtimetest.StartContainerd(t)
	dir := t.TempDir()
	api := newFakeAPI()
	return &realMachine{api: api, containerd: ctd, config: Config{
		NodeName: "n1", NodeIPs: []net.IP{net.IPv4(127, 0, 0, 1)}, client: api,
		RootDir: filepath.Join(dir, "root"), PodLogsDir: filepath.Join(dir, "pods"), ContainerLogsDir: filepath.Join(dir, "containers"),
		CgroupParent: ctd.CgroupParent, APIHost: "127.0.0.1", APIPort: 6443,
	}}
}

// start starts an agent; the result ends it and waits, and so does the test's end.
func (m *realMachine) start(t *testing.T) (stop func()) {
	t.Helper()
	client, err := cri.New(cri.Options{Endpoint: m.containerd.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	config := m.config
	config.Runtime = client
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, config) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the agent ended with %v", err)
		}
		if err := client.Close(); err != nil {
			t.Errorf("closing the runtime client: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func (m *realMachine) await(t *testing.T, pod *v1.Pod, what string, ok func(*v1.Pod) bool) *v1.Pod {
	t.Helper()
	var got *v1.Pod
	runtimetest.Await(t, fmt.Sprintf("pod %s: %s", pod.Name, what), func() (bool, string) {
		got = m.api.get(pod)
		return got != nil && ok(got), describe(got)
	})
	return got
}

func (m *realMachine) awaitGone(t *testing.T, pod *v1.Pod) {
	t.Helper()
	runtimetest.Await(t, "pod "+pod.Name+" to be gone", func() (bool, string) {
		_, err := os.Stat(filepath.Join(m.config.RootDir, "journals", string(pod.UID)))
		got := m.api.get(pod)
		return got == nil && os.IsNotExist(err), describe(got)
	})
}

func useImage(pod *v1.Pod, image string) {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			list[i].Image = image
		}
	}
}

func isReady(pod *v1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func describe(pod *v1.Pod) string {
	if pod == nil {
		return "no such Pod"
	}
	return fmt.Sprintf("%+v", pod.Status)
}
