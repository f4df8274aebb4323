package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestANodeThatFallsSilent: a lease that stops makes the node Unknown, taints it,
// and its Pods are not Ready any more. The silent node is an object alone: nothing
// renews its lease.
func TestANodeThatFallsSilent(t *testing.T) {
	t.Parallel() // it has a cluster of its own
	c := ownCluster(t)
	must(t, c.up())
	c.apply(t, "kube-node-lease", `
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: ghost, namespace: kube-node-lease}
spec: {holderIdentity: ghost, leaseDurationSeconds: 40, renewTime: "2026-01-01T00:00:00.000000Z"}
`)
	c.apply(t, "default", `
apiVersion: v1
kind: Node
metadata: {name: ghost, labels: {kubernetes.io/hostname: ghost}}
---
apiVersion: v1
kind: Pod
metadata: {name: left}
spec:
  nodeName: ghost
  containers: [{name: app, image: "busybox:1.36"}]
`)
	c.kubectl(t, "patch", "node", "ghost", "--subresource=status", "-p",
		`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}`)
	c.kubectl(t, "patch", "pod", "left", "--subresource=status", "-p",
		`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
	c.pod(t, "default", "left", "not Ready", func(p *v1.Pod) bool { return condition(p, v1.PodReady) == v1.ConditionFalse })
	c.kubectl(t, "wait", "node/ghost", "--for=jsonpath={.status.conditions[?(@.type=='Ready')].status}=Unknown", "--timeout=30s")
	c.kubectl(t, "wait", "node/ghost", "--for=jsonpath={.spec.taints[?(@.effect=='NoExecute')].key}=node.kubernetes.io/unreachable", "--timeout=30s")
	node, err := c.client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
	must(t, err)
	if len(node.Spec.Taints) != 0 {
		t.Errorf("the living node has taints %v", node.Spec.Taints)
	}
}

// TestDetach: the command returns when the node is Ready, and down stops it.
func TestDetach(t *testing.T) {
	t.Parallel() // it has a cluster of its own
	c := ownCluster(t)
	out, err := exec.Command(root("bin/muster"), append([]string{"up", "--detach"}, c.flags...)...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "node node-1 is Ready") || !strings.Contains(string(out), c.kubeconfig) {
		t.Fatalf("muster up --detach: %v\n%s", err, out)
	}
	must(t, c.connect())
	c.kubectl(t, "wait", "node/node-1", "--for=condition=Ready", "--timeout=1s")
	must(t, c.muster("down", "--data-dir", c.dir))
	if _, _, err := c.try(nil, "get", "nodes", "--request-timeout=2s"); err == nil {
		t.Error("the API server answers after down")
	}
	if _, err := os.Stat(filepath.Join(c.dir, "store")); err != nil {
		t.Errorf("down without --purge took the objects away: %v", err)
	}
}

// TestPreflightSaysWhatToDo: each thing that is missing, with its remedy, and
// nothing is begun.
func TestPreflightSaysWhatToDo(t *testing.T) {
	t.Parallel()
	needE2E(t)
	dir, err := os.MkdirTemp("/tmp", "muster-e2e-nobody-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o777))
	binary := filepath.Join(dir, "muster") // the checkout may be closed to others
	must(t, exec.Command("cp", root("bin/muster"), binary).Run())
	nobody := exec.Command(binary, "up", "--data-dir", filepath.Join(dir, "data"))
	nobody.Dir = dir
	nobody.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := nobody.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "✗ root") || !strings.Contains(string(out), "sudo") {
		t.Errorf("muster up as nobody: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "store")); err == nil {
		t.Error("it began all the same")
	}
}

// TestRestartPoliciesOfApps: how Pods end by themselves.
func TestRestartPoliciesOfApps(t *testing.T) {
	t.Parallel() // after the tests that change the node
	c := theCluster(t)
	ns := c.namespace(t)
	pod := func(name, policy, script string) string {
		return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: %s
  terminationGracePeriodSeconds: 1
  volumes: [{name: work, emptyDir: {}}]
  containers: [{name: app, image: "busybox:1.36", command: [sh, -c, %q], volumeMounts: [{name: work, mountPath: /work}]}]
`, name, policy, script)
	}
	c.apply(t, ns, pod("good", "Never", "exit 0")+pod("bad", "Never", "exit 3")+
		pod("again", "OnFailure", "echo x >> /work/n; [ $(wc -l < /work/n) -ge 2 ]")+
		pod("always", "Always", "exit 0"))
	for name, phase := range map[string]v1.PodPhase{"good": v1.PodSucceeded, "bad": v1.PodFailed, "again": v1.PodSucceeded} {
		got := c.pod(t, ns, name, string(phase), func(p *v1.Pod) bool { return p.Status.Phase == phase })
		restarts := map[string]int32{"again": 1}[name]
		if got.Status.ContainerStatuses[0].RestartCount != restarts {
			t.Errorf("%s was restarted %d times, want %d", name, got.Status.ContainerStatuses[0].RestartCount, restarts)
		}
	}
	crashing := c.pod(t, ns, "always", "in back-off", func(p *v1.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].RestartCount >= 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "CrashLoopBackOff"
	})
	if crashing.Status.Phase != v1.PodRunning {
		t.Errorf("a Pod that is restarted is %s, want Running", crashing.Status.Phase)
	}
}

// TestImagesThatCannotBeUsed: each in Kubernetes' word for it.
func TestImagesThatCannotBeUsed(t *testing.T) {
	t.Parallel() // after the tests that change the node
	c := theCluster(t)
	ns := c.namespace(t)
	for name, row := range map[string]struct{ image, policy, reason string }{
		"never":   {"absent.invalid/x:1", "Never", "ErrImageNeverPull"},
		"invalid": {"Not//An:image:name", "IfNotPresent", "InvalidImageName"},
		"absent":  {"absent.invalid/x:1", "Always", "ImagePullBackOff"},
	} {
		c.apply(t, ns, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: %q, imagePullPolicy: %s}]
`, name, row.image, row.policy))
		c.pod(t, ns, name, row.reason, func(p *v1.Pod) bool {
			return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil && p.Status.ContainerStatuses[0].State.Waiting.Reason == row.reason
		})
	}
}

// TestConditionsOfAPod: all five, each saying which generation it speaks of.
func TestConditionsOfAPod(t *testing.T) {
	t.Parallel() // after the tests that change the node
	c := theCluster(t)
	ns := c.namespace(t)
	c.apply(t, ns, steps("Always", "true"))
	pod := c.pod(t, ns, "steps", "Ready", ready)
	for _, kind := range []v1.PodConditionType{v1.PodScheduled, v1.PodReadyToStartContainers, v1.PodInitialized, v1.ContainersReady, v1.PodReady} {
		if condition(pod, kind) != v1.ConditionTrue {
			t.Errorf("condition %s is %q, want True", kind, condition(pod, kind))
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type != v1.PodScheduled && condition.ObservedGeneration != pod.Generation {
			t.Errorf("condition %s speaks of generation %d, want %d", condition.Type, condition.ObservedGeneration, pod.Generation)
		}
	}
	if pod.Status.ObservedGeneration != pod.Generation || pod.Status.StartTime == nil || pod.Status.QOSClass != v1.PodQOSBestEffort {
		t.Errorf("the status speaks of generation %d, start %v, class %s", pod.Status.ObservedGeneration, pod.Status.StartTime, pod.Status.QOSClass)
	}
	for _, status := range pod.Status.InitContainerStatuses {
		if status.State.Terminated == nil || status.State.Terminated.Reason != "Completed" || !status.Ready || status.Started == nil || *status.Started {
			t.Errorf("finished step %s is %+v", status.Name, status)
		}
	}
}
