package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/runtime"
	"muster.dev/muster/internal/runtime/fake"
)

// testNode is a node whose runtime is in memory: it, the API and the disk outlive
// the agents that a test starts on it, one after the other.
type testNode struct {
	api     *fakeAPI
	runtime *fake.Runtime
	config  Config

	mu     sync.Mutex
	starts []string // "container/attempt" in the order they started
	script func(fake.Start) fake.Run
}

// inBubble runs a test with a node in simulated time.
func inBubble(t *testing.T, test func(t *testing.T, n *testNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		n := &testNode{api: newFakeAPI()}
		n.runtime = fake.New(fake.Options{Logs: true, Script: fake.Script{Container: n.started}})
		n.runtime.AddImage("example.test/app:1", fake.Pull{})
		n.config = Config{
			NodeName: "n1", NodeIPs: []net.IP{net.IPv4(192, 0, 2, 1)}, client: n.api, Runtime: n.runtime,
			RootDir: filepath.Join(dir, "root"), PodLogsDir: filepath.Join(dir, "pods"), ContainerLogsDir: filepath.Join(dir, "containers"),
			Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		}
		test(t, n)
	})
}

// started notes a start and asks the test's script what it does.
func (n *testNode) started(s fake.Start) fake.Run {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.starts = append(n.starts, fmt.Sprintf("%s/%d", s.Config.Metadata.Name, s.Attempt))
	if n.script == nil {
		return fake.Run{}
	}
	return n.script(s)
}

func (n *testNode) order() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.starts)
}

// start starts an agent and waits until it follows the API.
func (n *testNode) start(t *testing.T) (stop func()) {
	t.Helper()
	stop = n.startOn(t, n.config)
	synctest.Wait()
	return stop
}

func (n *testNode) startOn(t *testing.T, config Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, config) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	}
}

// await lets simulated time pass until ok, at most the given time.
func (n *testNode) await(t *testing.T, pod *v1.Pod, limit time.Duration, what string, ok func(*v1.Pod) bool) *v1.Pod {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		synctest.Wait()
		got := n.api.get(pod)
		if ok(got) {
			return got
		}
		if time.Now().After(end) {
			t.Fatalf("pod %s: not %s in %v: %s", pod.Name, what, limit, describe(got))
		}
	}
}

func isGone(pod *v1.Pod) bool { return pod == nil }

func ready(pod *v1.Pod) bool { return pod != nil && isReady(pod) }

func inPhase(phase v1.PodPhase) func(*v1.Pod) bool {
	return func(pod *v1.Pod) bool { return pod != nil && pod.Status.Phase == phase }
}

// endsAfter makes containers of these names end by themselves; others run on.
func endsAfter(d time.Duration, code int32, names ...string) func(fake.Start) fake.Run {
	return func(s fake.Start) fake.Run {
		if slices.Contains(names, s.Config.Metadata.Name) {
			return fake.Run{Ends: true, After: d, ExitCode: code}
		}
		return fake.Run{}
	}
}

func both(scripts ...func(fake.Start) fake.Run) func(fake.Start) fake.Run {
	return func(s fake.Start) fake.Run {
		for _, script := range scripts {
			if run := script(s); run.Ends {
				return run
			}
		}
		return fake.Run{}
	}
}

func never(pod *v1.Pod) { pod.Spec.RestartPolicy = v1.RestartPolicyNever }

func hostPort(port int32) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: port, HostPort: port, Protocol: v1.ProtocolTCP}}
	}
}

func waitingReason(pod *v1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Waiting != nil {
			return s.State.Waiting.Reason
		}
	}
	return ""
}

// held is what the runtime holds of a Pod.
func (n *testNode) held(t *testing.T, pod *v1.Pod) runtime.Pod {
	t.Helper()
	held, err := n.runtime.Pod(t.Context(), pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// kill ends a running container behind the agent's back.
func (n *testNode) kill(t *testing.T, pod *v1.Pod, container string, code int32) {
	t.Helper()
	for _, c := range n.held(t, pod).Containers {
		if c.Name == container && c.State == runtime.Running {
			n.runtime.Kill(c.ID, code, "")
			return
		}
	}
	t.Fatalf("container %s does not run", container)
}

// disk is what there is of a Pod on disk.
type disk struct{ folder, journal, logs bool }

func (n *testNode) awaitDisk(t *testing.T, pod *v1.Pod, limit time.Duration, ok func(disk) bool) {
	t.Helper()
	exists := func(parts ...string) bool {
		_, err := os.Lstat(filepath.Join(parts...))
		return err == nil
	}
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		synctest.Wait()
		got := disk{
			folder:  exists(n.config.RootDir, "pods", string(pod.UID)),
			journal: exists(n.config.RootDir, "journals", string(pod.UID)),
			logs:    exists(n.config.PodLogsDir, "default_"+pod.Name+"_"+string(pod.UID)),
		}
		if ok(got) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v there is on disk of pod %s: %+v", limit, pod.Name, got)
		}
	}
}
