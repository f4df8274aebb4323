package e2e_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// TestBadManifestsAreRefused in Kubernetes' own words, with nothing half applied.
func TestBadManifestsAreRefused(t *testing.T) {
	c := theCluster(t)
	ns := c.namespace(t)
	good := daemonSet("bad", "")
	for name, row := range map[string]struct{ manifest, says string }{
		"unknown field":     {strings.Replace(good, "terminationGracePeriodSeconds", "terminationGraceSeconds", 1), `unknown field "spec.template.spec.terminationGraceSeconds"`},
		"wrong type":        {strings.Replace(good, "terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: soon", 1), "terminationGracePeriodSeconds"},
		"selector mismatch": {strings.Replace(good, "matchLabels: {app: bad}", "matchLabels: {app: other}", 1), "`selector` does not match template `labels`"},
		"duplicate names":   {strings.Replace(good, "name: prepare", "name: agent", 1), `Duplicate value: "agent"`},
		"probe on an init":  {strings.Replace(good, `command: ["true"]`, `command: ["true"], readinessProbe: {exec: {command: ["true"]}}`, 1), "may not be set for init containers without restartPolicy=Always"},
	} {
		t.Run(name, func(t *testing.T) {
			if said := c.refused(t, ns, row.manifest); !strings.Contains(said, row.says) {
				t.Errorf("kubectl says %q, want %q in it", said, row.says)
			}
			if out := c.kubectl(t, "get", "ds,pods,controllerrevisions", "-n", ns, "-o", "name"); out != "" {
				t.Errorf("left behind: %s", out)
			}
		})
	}
}

// TestKindsThatAreNotServedAreRefused: nothing is accepted and then ignored.
func TestKindsThatAreNotServedAreRefused(t *testing.T) {
	c := theCluster(t)
	said := c.refused(t, "default", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n")
	if !strings.Contains(said, `no matches for kind "Deployment" in version "apps/v1"`) {
		t.Errorf("kubectl says %q", said)
	}
}

// TestNothingIsAnonymousButHealth, neither at the API server nor at the agent.
func TestNothingIsAnonymousButHealth(t *testing.T) {
	c := theCluster(t)
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	must(t, err)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // who asks is tested, not who answers
	node, err := c.client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
	must(t, err)
	agent := "https://" + strings.Split(strings.TrimPrefix(config.Host, "https://"), ":")[0] + ":" + c.flag("--agent-port")
	for url, want := range map[string]int{
		config.Host + "/livez": 200, config.Host + "/readyz": 200, config.Host + "/healthz": 200,
		config.Host + "/api": 401, config.Host + "/api/v1/nodes": 401, config.Host + "/version": 401, config.Host + "/metrics": 401,
		agent + "/pods": 401, agent + "/containerLogs/default/a/b": 401, agent + "/exec/default/a/b": 401,
	} {
		answer, err := client.Get(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != want && !(want == 401 && answer.StatusCode == 403) {
			t.Errorf("%s answers %d to nobody, want %d: %s", url, answer.StatusCode, want, body)
		}
	}
	if node.Status.DaemonEndpoints.KubeletEndpoint.Port == 0 {
		t.Error("the node does not say where its endpoint is")
	}
}

// TestTheNode says what it is, and renews its lease.
func TestTheNode(t *testing.T) {
	c := theCluster(t)
	node, err := c.client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
	must(t, err)
	for _, resource := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods, v1.ResourceEphemeralStorage} {
		if node.Status.Capacity.Name(resource, "").IsZero() || node.Status.Allocatable.Name(resource, "").IsZero() {
			t.Errorf("the node has no capacity or allocatable of %s", resource)
		}
	}
	for _, label := range []string{v1.LabelHostname, v1.LabelOSStable, v1.LabelArchStable} {
		if node.Labels[label] == "" {
			t.Errorf("the node lacks label %s", label)
		}
	}
	conditions := map[v1.NodeConditionType]v1.ConditionStatus{}
	for _, condition := range node.Status.Conditions {
		conditions[condition.Type] = condition.Status
	}
	for kind, want := range map[v1.NodeConditionType]v1.ConditionStatus{v1.NodeReady: "True", v1.NodeMemoryPressure: "False", v1.NodeDiskPressure: "False", v1.NodePIDPressure: "False"} {
		if conditions[kind] != want {
			t.Errorf("condition %s is %q, want %q", kind, conditions[kind], want)
		}
	}
	info := node.Status.NodeInfo
	if info.KernelVersion == "" || info.OSImage == "" || !strings.HasPrefix(info.ContainerRuntimeVersion, "containerd://") || info.KubeletVersion == "" || info.BootID == "" {
		t.Errorf("the node's info is %+v", info)
	}
	if len(node.Spec.Taints) != 0 {
		t.Errorf("a Ready node has taints %v", node.Spec.Taints)
	}
	lease, err := c.client.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), "node-1", metav1.GetOptions{})
	must(t, err)
	if age := time.Since(lease.Spec.RenewTime.Time); age > 40*time.Second {
		t.Errorf("the lease was renewed %v ago", age)
	}
}

// TestNamespacesAndOwners: the stock controllers work.
func TestNamespacesAndOwners(t *testing.T) {
	c := theCluster(t)
	ns := c.namespace(t)
	c.kubectl(t, "wait", "--for=create", "serviceaccount/default", "configmap/kube-root-ca.crt", "-n", ns, "--timeout=30s")
	c.apply(t, ns, daemonSet("owner", ""))
	c.daemon(t, ns, "owner", "covered", covered)
	c.kubectl(t, "delete", "ds", "owner", "-n", ns, "--cascade=orphan")
	if out := c.kubectl(t, "get", "pods", "-n", ns, "-l", "app=owner", "-o", "name"); strings.Count(out, "pod/") != 1 {
		t.Errorf("an orphaned Pod is gone: %q", out)
	}
	was := c.kubectl(t, "get", "pods", "-n", ns, "-l", "app=owner", "-o", "jsonpath={.items[*].metadata.uid}")
	c.apply(t, ns, daemonSet("owner", ""))
	c.daemon(t, ns, "owner", "covered by the Pod it adopted", covered)
	if is := c.kubectl(t, "get", "pods", "-n", ns, "-l", "app=owner", "-o", "jsonpath={.items[*].metadata.uid}"); is != was {
		t.Errorf("the orphan %s was not adopted: now %s", was, is)
	}
	c.kubectl(t, "delete", "ds", "owner", "-n", ns, "--cascade=foreground", "--timeout=60s")
	if out := c.kubectl(t, "get", "pods", "-n", ns, "-l", "app=owner", "-o", "name"); out != "" {
		t.Errorf("after a foreground deletion there is still %q", out)
	}
}

// TestASecondMusterIsRefused while the first runs on the same data directory.
func TestASecondMusterIsRefused(t *testing.T) {
	c := theCluster(t)
	out, err := exec.Command(root("bin/muster"), append([]string{"up"}, c.flags...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in use") {
		t.Errorf("a second muster up: %v\n%s", err, out)
	}
	if info, err := os.Stat(c.kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: %v, %v", info.Mode(), err)
	}
}

func (c *cluster) flag(name string) string {
	for i, flag := range c.flags {
		if flag == name {
			return c.flags[i+1]
		}
	}
	return ""
}
