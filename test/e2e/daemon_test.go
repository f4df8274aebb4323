package e2e_test

import (
	"os/exec"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
)

// daemonSet is a daemon with an init step; extra is put into its Pod's spec.
func daemonSet(name, extra string) string {
	return `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: ` + name + `, labels: {app: ` + name + `}}
spec:
  selector: {matchLabels: {app: ` + name + `}}
  template:
    metadata: {labels: {app: ` + name + `}}
    spec:
      terminationGracePeriodSeconds: 1
` + extra + `
      initContainers:
      - {name: prepare, image: "busybox:1.36", command: ["true"]}
      containers:
      - {name: agent, image: "busybox:1.36", command: [sleep, "3600"], env: [{name: V, value: "1"}]}
`
}

func covered(d *appsv1.DaemonSet) bool {
	s := d.Status
	return s.ObservedGeneration == d.Generation && s.DesiredNumberScheduled == 1 && s.CurrentNumberScheduled == 1 &&
		s.NumberReady == 1 && s.NumberAvailable == 1 && s.UpdatedNumberScheduled == 1 && s.NumberMisscheduled == 0 && s.NumberUnavailable == 0
}

// TestADaemonIsRolledOutAndBack: status, history, undo, and a bad image that
// takes down one node at most.
func TestADaemonIsRolledOutAndBack(t *testing.T) {
	c := theCluster(t)
	ns := c.namespace(t)
	c.apply(t, ns, daemonSet("agent", ""))
	c.kubectl(t, "rollout", "status", "ds/agent", "-n", ns, "--timeout=90s")
	set := c.daemon(t, ns, "agent", "covered", covered)
	if got := set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.IntValue(); got != 1 {
		t.Errorf("maxUnavailable is %d, want 1", got)
	}

	c.kubectl(t, "set", "env", "ds/agent", "V=2", "-n", ns)
	c.kubectl(t, "rollout", "status", "ds/agent", "-n", ns, "--timeout=90s")
	if out := c.kubectl(t, "rollout", "history", "ds/agent", "-n", ns); !strings.Contains(out, "\n1 ") || !strings.Contains(out, "\n2 ") {
		t.Errorf("the history is %q, want revisions 1 and 2", out)
	}

	c.kubectl(t, "set", "image", "ds/agent", "agent=registry.invalid/bad:1", "-n", ns)
	c.daemon(t, ns, "agent", "held by its bad image", func(d *appsv1.DaemonSet) bool {
		return d.Status.ObservedGeneration == d.Generation && d.Status.NumberUnavailable == 1 && d.Status.UpdatedNumberScheduled == 1
	})
	if _, _, err := c.try(nil, "rollout", "status", "ds/agent", "-n", ns, "--timeout=3s"); err == nil {
		t.Error("rollout status calls a broken rollout done")
	}
	name := strings.TrimSpace(c.kubectl(t, "get", "pods", "-n", ns, "-l", "app=agent", "-o", "jsonpath={.items[*].metadata.name}"))
	c.pod(t, ns, name, "without its image", func(p *v1.Pod) bool {
		waiting := p.Status.ContainerStatuses[0].State.Waiting
		return waiting != nil && (waiting.Reason == "ErrImagePull" || waiting.Reason == "ImagePullBackOff")
	})
	if out, err := coverage(c, ns); err != nil || !strings.Contains(out, "registry.invalid/bad:1") {
		t.Errorf("coverage does not name the bad image (%v):\n%s", err, out)
	}
	c.kubectl(t, "rollout", "undo", "ds/agent", "-n", ns)
	c.kubectl(t, "rollout", "status", "ds/agent", "-n", ns, "--timeout=90s")
	if out := c.kubectl(t, "get", "ds", "agent", "-n", ns, "-o", "jsonpath={.spec.template.spec.containers[0].env[0].value}"); out != "2" {
		t.Errorf("after the undo V is %q, want 2", out)
	}
	c.daemon(t, ns, "agent", "covered again", covered)
}

// TestADaemonComesBack: its Pod deleted by hand, and on a cordoned node (C35).
func TestADaemonComesBack(t *testing.T) {
	c := theCluster(t)
	ns := c.namespace(t)
	c.apply(t, ns, daemonSet("agent", ""))
	c.daemon(t, ns, "agent", "covered", covered)
	c.kubectl(t, "cordon", "node-1")
	defer c.kubectl(t, "uncordon", "node-1")
	was := c.kubectl(t, "get", "pods", "-n", ns, "-l", "app=agent", "-o", "jsonpath={.items[*].metadata.uid}")
	c.kubectl(t, "delete", "pods", "-n", ns, "-l", "app=agent")
	c.daemon(t, ns, "agent", "covered again", func(d *appsv1.DaemonSet) bool {
		is := c.kubectl(t, "get", "pods", "-n", ns, "-l", "app=agent", "-o", "jsonpath={.items[*].metadata.uid}")
		return covered(d) && is != was
	})
}

// TestEligibility: selectors and taints choose, and coverage says why not (C30, C33, C37).
func TestEligibility(t *testing.T) {
	c := theCluster(t)
	ns := c.namespace(t)
	c.kubectl(t, "label", "node", "node-1", "role=edge")
	defer c.kubectl(t, "label", "node", "node-1", "role-")
	c.apply(t, ns, daemonSet("edge", "      nodeSelector: {role: edge}"))
	c.apply(t, ns, daemonSet("gpu", "      nodeSelector: {role: gpu}"))
	c.daemon(t, ns, "edge", "covered", covered)
	c.daemon(t, ns, "gpu", "wanted nowhere", func(d *appsv1.DaemonSet) bool {
		return d.Status.ObservedGeneration == d.Generation && d.Status.DesiredNumberScheduled == 0
	})
	c.kubectl(t, "label", "node", "node-1", "role=gpu", "--overwrite")
	c.daemon(t, ns, "gpu", "covered after the label moved", covered)
	c.daemon(t, ns, "edge", "gone after the label moved", func(d *appsv1.DaemonSet) bool {
		return d.Status.DesiredNumberScheduled == 0 && d.Status.NumberMisscheduled == 0 && d.Status.CurrentNumberScheduled == 0
	})

	c.kubectl(t, "taint", "node", "node-1", "special=yes:NoSchedule")
	defer func() { _, _, _ = c.try(nil, "taint", "node", "node-1", "special-") }()
	c.daemon(t, ns, "gpu", "misscheduled and kept", func(d *appsv1.DaemonSet) bool {
		return d.Status.NumberMisscheduled == 1 && d.Status.DesiredNumberScheduled == 0
	})
	if out, err := coverage(c, ns); err != nil || !strings.Contains(out, "special=yes:NoSchedule") {
		t.Errorf("coverage does not name the taint (%v):\n%s", err, out)
	}
	c.kubectl(t, "taint", "node", "node-1", "special=yes:NoExecute")
	c.kubectl(t, "wait", "--for=delete", "pod", "-l", "app=gpu", "-n", ns, "--timeout=60s")
	c.kubectl(t, "taint", "node", "node-1", "special-")
	c.daemon(t, ns, "gpu", "covered again", covered)
}

// TestTheNotesThreeCommands are the first field note's own check: desired against
// ready, and as many nodes with the agent as there are nodes.
func TestTheNotesThreeCommands(t *testing.T) {
	c := theCluster(t)
	c.kubectl(t, "apply", "-f", root("examples/log-agent.yaml"))
	defer c.kubectl(t, "delete", "-f", root("examples/log-agent.yaml"), "--timeout=90s")
	c.kubectl(t, "rollout", "status", "ds/log-agent", "--timeout=120s")
	for command, want := range map[string]string{
		"kubectl get ds -A -o custom-columns=NAME:.metadata.name,DESIRED:.status.desiredNumberScheduled,READY:.status.numberReady | grep log-agent | tr -s ' '": "log-agent 1 1",
		"kubectl get pods -o wide -l app=log-agent | awk '{print $7}' | sort | uniq -c | wc -l":                                                                 "2", // the node, and the header
		"kubectl get nodes --no-headers | wc -l": "1",
	} {
		cmd := exec.Command("sh", "-c", command)
		cmd.Env = append(cmd.Environ(), "KUBECONFIG="+c.kubeconfig, "PATH="+root("bin")+":/usr/bin:/bin:/usr/sbin:/sbin")
		out, err := cmd.CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s gives %q (%v), want %q", command, out, err, want)
		}
	}
}

// TestExamplesWorkAsTheyAre applies every example and sees it covered.
func TestExamplesWorkAsTheyAre(t *testing.T) {
	c := theCluster(t)
	c.kubectl(t, "label", "node", "node-1", "muster.dev/canary=true")
	defer c.kubectl(t, "label", "node", "node-1", "muster.dev/canary-")
	for _, example := range []string{"node-exporter.yaml", "canary-pair.yaml", "policy-agent.yaml"} {
		file := root("examples/" + example)
		c.kubectl(t, "apply", "-f", file)
		for _, set := range strings.Fields(c.kubectl(t, "get", "ds", "-n", "default", "-o", `jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}`)) {
			namespace, name, _ := strings.Cut(set, "/")
			c.kubectl(t, "rollout", "status", "ds/"+name, "-n", namespace, "--timeout=120s")
		}
		c.kubectl(t, "delete", "-f", file, "--timeout=90s")
	}
}

// TestAPodThatFitsNowhereSaysWhy: the condition and the event carry the numbers,
// and room made is used at once (C31).
func TestAPodThatFitsNowhereSaysWhy(t *testing.T) {
	c := theCluster(t)
	ns := c.namespace(t)
	c.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec:
  containers:
  - {name: app, image: "busybox:1.36", command: [sleep, "600"], resources: {requests: {cpu: "4000"}}}
---
apiVersion: v1
kind: Pod
metadata: {name: picky}
spec:
  terminationGracePeriodSeconds: 1
  nodeSelector: {disk: fast}
  containers:
  - {name: app, image: "busybox:1.36", command: [sleep, "600"]}
`)
	message := func(p *v1.Pod) string {
		for _, condition := range p.Status.Conditions {
			if condition.Type == v1.PodScheduled && condition.Reason == v1.PodReasonUnschedulable {
				return condition.Message
			}
		}
		return ""
	}
	huge := c.pod(t, ns, "huge", "unschedulable", func(p *v1.Pod) bool { return message(p) != "" })
	if got := message(huge); !strings.HasPrefix(got, "0/1 nodes are available: 1 Insufficient cpu") {
		t.Errorf("the condition says %q", got)
	}
	picky := c.pod(t, ns, "picky", "unschedulable", func(p *v1.Pod) bool { return message(p) != "" })
	if got := message(picky); !strings.Contains(got, "1 node(s) didn't match Pod's node affinity/selector") {
		t.Errorf("the condition says %q", got)
	}
	if out := c.kubectl(t, "get", "events", "-n", ns); !strings.Contains(out, "FailedScheduling") {
		t.Errorf("no FailedScheduling event:\n%s", out)
	}
	c.kubectl(t, "label", "node", "node-1", "disk=fast")
	defer c.kubectl(t, "label", "node", "node-1", "disk-")
	c.pod(t, ns, "picky", "Ready", ready)
}

func coverage(c *cluster, namespace string) (string, error) {
	out, err := exec.Command(root("bin/muster"), "coverage", "--kubeconfig", c.kubeconfig, "-n", namespace).CombinedOutput()
	return string(out), err
}
