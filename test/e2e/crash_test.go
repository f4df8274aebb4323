package e2e_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// TestKilledInTheMiddleOfAnInitStep: kill -9 of `muster up` while a step runs,
// then up again. The step goes on, it is not repeated, order and counts stay right.
func TestKilledInTheMiddleOfAnInitStep(t *testing.T) {
	c := ownCluster(t)
	must(t, c.up())
	must(t, c.importImages())
	ns := c.namespace(t)
	c.apply(t, ns, steps("Always", "while [ ! -e /work/go ]; do sleep 0.1; done"))
	running := func(p *v1.Pod) bool {
		return len(p.Status.InitContainerStatuses) == 3 && p.Status.InitContainerStatuses[1].State.Running != nil
	}
	before := c.pod(t, ns, "steps", "in its second step", running)
	pid := containerPID(t, before, "two")

	c.kill(t, syscall.SIGKILL)
	if _, err := os.Stat(filepath.Join("/proc", pid)); err != nil {
		t.Fatalf("the running step died with muster: %v", err)
	}
	must(t, c.up())
	during := c.pod(t, ns, "steps", "in its second step still", running)
	if was, is := before.Status.InitContainerStatuses[1].ContainerID, during.Status.InitContainerStatuses[1].ContainerID; was != is {
		t.Errorf("the second step was container %s, is %s", was, is)
	}
	c.kubectl(t, "exec", "-n", ns, "steps", "-c", "two", "--", "touch", "/work/go")
	after := c.pod(t, ns, "steps", "Ready", ready)
	for _, status := range append(after.Status.InitContainerStatuses, after.Status.ContainerStatuses...) {
		if status.RestartCount != 0 {
			t.Errorf("%s has restart count %d, want 0", status.Name, status.RestartCount)
		}
	}
	if got := strings.Fields(c.kubectl(t, "logs", "-n", ns, "steps", "-c", "app")); strings.Join(got, " ") != "one two three app" {
		t.Errorf("order is %v", got)
	}
}

// TestAStepThatEndsWhileMusterIsDead: what happened meanwhile is found out, and
// nothing runs twice.
func TestAStepThatEndsWhileMusterIsDead(t *testing.T) {
	c := ownCluster(t)
	must(t, c.up())
	must(t, c.importImages())
	ns := c.namespace(t)
	c.apply(t, ns, steps("Always", "while [ ! -e /work/go ]; do sleep 0.1; done"))
	before := c.pod(t, ns, "steps", "in its second step", func(p *v1.Pod) bool {
		return len(p.Status.InitContainerStatuses) == 3 && p.Status.InitContainerStatuses[1].State.Running != nil
	})
	pid := containerPID(t, before, "two")
	c.kill(t, syscall.SIGKILL)
	release := filepath.Join("/proc", pid, "root/work/go")
	must(t, os.WriteFile(release, nil, 0o644))
	waitProcess(t, pid) // the step sees the file and ends by itself
	must(t, c.up())
	c.pod(t, ns, "steps", "Ready", ready)
	if got := strings.Fields(c.kubectl(t, "logs", "-n", ns, "steps", "-c", "app")); strings.Join(got, " ") != "one two three app" {
		t.Errorf("order is %v", got)
	}
}

// TestStopAndStartAgain: Ctrl-C leaves containers running, a second up takes up
// where the first left off, and down --purge leaves nothing at all.
func TestStopAndStartAgain(t *testing.T) {
	c := ownCluster(t)
	before := machine(t)
	must(t, c.up())
	must(t, c.importImages())
	c.apply(t, "default", steps("Always", "true"))
	pod := c.pod(t, "default", "steps", "Ready", ready)
	pid := containerPID(t, pod, "app")

	c.kill(t, syscall.SIGINT)
	if _, err := os.Stat(filepath.Join("/proc", pid)); err != nil {
		t.Fatalf("the app did not outlive Ctrl-C: %v", err)
	}
	must(t, c.up())
	again := c.pod(t, "default", "steps", "Ready", ready)
	if pod.UID != again.UID || pod.Status.ContainerStatuses[0].ContainerID != again.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("the Pod did not carry on: %s became %s", pod.Status.ContainerStatuses[0].ContainerID, again.Status.ContainerStatuses[0].ContainerID)
	}
	if info, err := os.Stat(c.kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig's mode is %v (%v), want 0600", info.Mode(), err)
	}

	must(t, c.muster("down", "--purge", "--data-dir", c.dir))
	must(t, c.muster("down", "--purge", "--data-dir", c.dir)) // and once more, with nothing there
	if _, err := os.Stat(filepath.Join("/proc", pid)); err == nil {
		t.Error("the app still runs after down --purge")
	}
	if _, err := os.Stat(c.dir); !os.IsNotExist(err) {
		t.Errorf("the data directory is still there (%v)", err)
	}
	for _, dir := range []string{c.logs, c.links} {
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
			t.Errorf("left in %s: %v", dir, left)
		}
	}
	for what, is := range machine(t) {
		for _, line := range strings.Split(is, "\n") {
			if !strings.Contains(before[what], line) {
				t.Errorf("left of the %s: %s", what, line)
			}
		}
	}
}

// machine is what a cluster could leave behind, as the machine shows it.
func machine(t *testing.T) map[string]string {
	t.Helper()
	state := map[string]string{}
	for what, command := range map[string]string{
		"mounts":            "grep -E 'muster|cni' /proc/mounts | sort",
		"network spaces":    "ls /var/run/netns 2>/dev/null | sort",
		"links":             "ip -o link | awk '{print $2}' | sort",
		"firewall rules":    "iptables-save | grep -v '^#' | grep -E '^-A' | sort",
		"control groups":    "find /sys/fs/cgroup -type d -name '*muster*' | sort",
		"shims and runtime": "pgrep -fa '[c]ontainerd' | grep muster-e2e",
	} {
		out, err := exec.Command("sh", "-c", command+" || true").Output()
		if err != nil {
			t.Fatalf("looking at the %s: %v", what, err)
		}
		state[what] = string(out)
	}
	return state
}

// waitProcess returns when the process has ended.
func waitProcess(t *testing.T, pid string) {
	t.Helper()
	number, err := strconv.Atoi(pid)
	must(t, err)
	fd, err := unix.PidfdOpen(number, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	must(t, err)
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			t.Fatalf("process %s did not end (%v)", pid, err)
		}
		return
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
