package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestTheNotesOwnProgram runs the verification program of the field note on
// ordinary init containers, as it stands, with a stock kubectl on PATH.
func TestTheNotesOwnProgram(t *testing.T) {
	t.Parallel() // after the tests that change the node
	c := theCluster(t)
	for range 5 {
		program := exec.Command("python3", "testdata/init-order.py", c.kubeconfig, "muster")
		program.Env = append(os.Environ(), "PATH="+root("bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := program.CombinedOutput()
		if err != nil {
			t.Fatalf("init-order.py: %v\n%s", err, out)
		}
		if !strings.Contains(string(out), `"app_waited_for_both_regular_init_containers": true`) {
			t.Fatalf("init-order.py printed %s", out)
		}
	}
}

// TestTheExampleWithInitSteps: the failed step is retried, the other is not.
func TestTheExampleWithInitSteps(t *testing.T) {
	t.Parallel() // after the tests that change the node
	c := theCluster(t)
	c.kubectl(t, "apply", "-f", root("examples/init-steps.yaml"))
	pod := c.pod(t, "default", "init-steps", "Ready", ready)
	if first, second := pod.Status.InitContainerStatuses[0].RestartCount, pod.Status.InitContainerStatuses[1].RestartCount; first != 0 || second != 1 {
		t.Errorf("the steps were restarted %d and %d times, want 0 and 1", first, second)
	}
	if got := strings.Fields(c.kubectl(t, "logs", "init-steps", "-c", "app")); strings.Join(got, " ") != "fetch check check app" {
		t.Errorf("order is %v", got)
	}
	c.kubectl(t, "delete", "-f", root("examples/init-steps.yaml"), "--timeout=60s")
}

// steps is a Pod whose three init steps and app append their names to a file in
// an emptyDir; second is what the second step does besides.
func steps(policy, second string) string {
	return `
apiVersion: v1
kind: Pod
metadata: {name: steps}
spec:
  restartPolicy: ` + policy + `
  terminationGracePeriodSeconds: 1
  volumes: [{name: work, emptyDir: {}}]
  initContainers:
  - {name: one, image: "busybox:1.36", command: [sh, -c, "echo one >> /work/order"], volumeMounts: [{name: work, mountPath: /work}]}
  - {name: two, image: "busybox:1.36", command: [sh, -c, "echo two >> /work/order; ` + second + `"], volumeMounts: [{name: work, mountPath: /work}]}
  - {name: three, image: "busybox:1.36", command: [sh, -c, "echo three >> /work/order"], volumeMounts: [{name: work, mountPath: /work}]}
  containers:
  - {name: app, image: "busybox:1.36", command: [sh, -c, "echo app >> /work/order; cat /work/order; exec sleep 600"], volumeMounts: [{name: work, mountPath: /work}]}
`
}

// TestAFailedInitStepFailsANeverPod is C63: later steps and the app never start.
func TestAFailedInitStepFailsANeverPod(t *testing.T) {
	t.Parallel() // after the tests that change the node
	c := theCluster(t)
	ns := c.namespace(t)
	c.apply(t, ns, steps("Never", "exit 1"))
	pod := c.pod(t, ns, "steps", "Failed", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodFailed })
	inits := pod.Status.InitContainerStatuses
	if len(inits) != 3 {
		t.Fatalf("%d init container statuses, want 3", len(inits))
	}
	if got := inits[1].State.Terminated; got == nil || got.ExitCode != 1 || inits[1].RestartCount != 0 {
		t.Errorf("the second step is %+v, want ended with 1 and never retried", inits[1])
	}
	if inits[2].State.Waiting == nil {
		t.Errorf("the third step is %+v, want never started", inits[2].State)
	}
	if app := pod.Status.ContainerStatuses[0]; app.State.Waiting == nil {
		t.Errorf("the app is %+v, want never started", app.State)
	}
	if column := c.kubectl(t, "get", "pod", "steps", "-n", ns, "--no-headers"); !strings.Contains(column, "Init:Error") {
		t.Errorf("kubectl get pod says %q, want Init:Error", column)
	}
}

// TestAFailedInitStepIsRetriedWithBackOff is C65: at once, then after 10 seconds.
func TestAFailedInitStepIsRetriedWithBackOff(t *testing.T) {
	for _, policy := range []string{"Always", "OnFailure"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			c := theCluster(t)
			ns := c.namespace(t)
			c.apply(t, ns, steps(policy, "[ $(grep -c two /work/order) -ge 3 ]"))
			first := c.pod(t, ns, "steps", "in back-off", func(p *v1.Pod) bool {
				return len(p.Status.InitContainerStatuses) == 3 && p.Status.InitContainerStatuses[1].RestartCount == 1 &&
					p.Status.InitContainerStatuses[1].State.Waiting != nil && p.Status.InitContainerStatuses[1].State.Waiting.Reason == "CrashLoopBackOff"
			})
			if first.Status.Phase != v1.PodPending {
				t.Errorf("phase is %s while an init step is retried, want Pending", first.Status.Phase)
			}
			pod := c.pod(t, ns, "steps", "Ready", ready)
			if got := pod.Status.InitContainerStatuses[1].RestartCount; got != 2 {
				t.Errorf("the second step was restarted %d times, want 2", got)
			}
			gap := pod.Status.InitContainerStatuses[1].State.Terminated.StartedAt.Sub(
				first.Status.InitContainerStatuses[1].LastTerminationState.Terminated.FinishedAt.Time)
			if gap.Seconds() < 9 || gap.Seconds() > 25 {
				t.Errorf("the third try came %v after the second ended, want about 10 s", gap)
			}
			if got := strings.Fields(c.kubectl(t, "logs", "-n", ns, "steps", "-c", "app")); strings.Join(got, " ") != "one two two two three app" {
				t.Errorf("order is %v", got)
			}
		})
	}
}

// TestAnInitImageThatIsNotThere is C62: the Pod waits and says why.
func TestAnInitImageThatIsNotThere(t *testing.T) {
	t.Parallel() // after the tests that change the node
	c := theCluster(t)
	ns := c.namespace(t)
	manifest := strings.Replace(steps("Never", "true"), `name: two, image: "busybox:1.36"`, `name: two, image: "registry.invalid/none:1"`, 1)
	c.apply(t, ns, manifest)
	pod := c.pod(t, ns, "steps", "waiting for its image", func(p *v1.Pod) bool {
		return len(p.Status.InitContainerStatuses) == 3 && p.Status.InitContainerStatuses[1].State.Waiting != nil &&
			p.Status.InitContainerStatuses[1].State.Waiting.Reason == "ImagePullBackOff"
	})
	if pod.Status.Phase != v1.PodPending {
		t.Errorf("phase is %s, want Pending", pod.Status.Phase)
	}
	if out := c.kubectl(t, "get", "events", "-n", ns); !strings.Contains(out, "Failed to pull image") {
		t.Errorf("the events do not say that the image could not be pulled:\n%s", out)
	}
}

// TestASandboxThatDiesRunsEveryStepAgain is C57: in order, with the counts up.
func TestASandboxThatDiesRunsEveryStepAgain(t *testing.T) {
	t.Parallel() // after the tests that change the node
	c := theCluster(t)
	ns := c.namespace(t)
	c.apply(t, ns, steps("Always", "true"))
	pod := c.pod(t, ns, "steps", "Ready", ready)
	killSandbox(t, c, pod)
	pod = c.pod(t, ns, "steps", "Ready again", func(p *v1.Pod) bool {
		return ready(p) && p.Status.InitContainerStatuses[0].RestartCount == 1
	})
	for _, status := range pod.Status.InitContainerStatuses {
		if status.RestartCount != 1 {
			t.Errorf("init step %s has restart count %d, want 1", status.Name, status.RestartCount)
		}
	}
	if got := strings.Fields(c.kubectl(t, "logs", "-n", ns, "steps", "-c", "app")); strings.Join(got, " ") != "one two three app one two three app" {
		t.Errorf("order is %v", got)
	}
}

// killSandbox kills the sandbox's own process: the parent of nothing, the one
// that holds the Pod's namespaces.
func killSandbox(t *testing.T, c *cluster, pod *v1.Pod) {
	t.Helper()
	app := containerPID(t, pod, "app")
	network, err := os.Readlink(filepath.Join("/proc", app, "ns", "net"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids(t) {
		comm, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
		if err != nil {
			continue
		}
		same, err := os.Readlink(filepath.Join("/proc", pid, "ns", "net"))
		if err == nil && same == network && strings.TrimSpace(string(comm)) == "pause" {
			if err := exec.Command("kill", "-9", pid).Run(); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("found no sandbox process")
}

// containerPID finds the first process of a container by its cgroup.
func containerPID(t *testing.T, pod *v1.Pod, name string) string {
	t.Helper()
	id := ""
	for _, status := range append(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses...) {
		if status.Name == name {
			_, id, _ = strings.Cut(status.ContainerID, "://")
		}
	}
	if id == "" {
		t.Fatalf("container %s has no ID", name)
	}
	for _, pid := range pids(t) {
		groups, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
		if err == nil && strings.Contains(string(groups), id) {
			return pid
		}
	}
	t.Fatalf("no process in the cgroup of container %s (%s)", name, id)
	return ""
}

func pids(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range found {
		found[i] = filepath.Base(path)
	}
	return found
}
