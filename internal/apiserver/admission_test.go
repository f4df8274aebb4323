package apiserver_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"muster.dev/muster/internal/testkit/server"
)

// space makes a namespace with its default account, as the controllers would.
func space(t *testing.T, c kubernetes.Interface, name string, labels map[string]string) {
	t.Helper()
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := c.CoreV1().Namespaces().Create(soon(t), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := c.CoreV1().ServiceAccounts(name).Create(soon(t), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func plainPod(change func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}},
	}
	change(pod)
	return pod
}

func TestAPodIsAdmittedWithWhatItDidNotSay(t *testing.T) {
	s := server.Shared(t)
	c := owner(t, s)
	space(t, c, "admitted", nil)
	_, err := c.CoreV1().LimitRanges("admitted").Create(soon(t), &v1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "l"},
		Spec: v1.LimitRangeSpec{Limits: []v1.LimitRangeItem{{
			Type:           v1.LimitTypeContainer,
			DefaultRequest: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")},
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var pod *v1.Pod
	waitFor(t, "the limit range to be seen", func() bool {
		pod, err = c.CoreV1().Pods("admitted").Create(soon(t), plainPod(func(p *v1.Pod) {
			p.Spec.PriorityClassName = "system-node-critical"
		}), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Fatal(err)
		}
		return !pod.Spec.Containers[0].Resources.Requests.Cpu().IsZero()
	})
	if got := pod.Spec.Containers[0].Resources.Requests.Cpu().String(); got != "100m" {
		t.Errorf("it requests %s of CPU", got)
	}
	if pod.Spec.Priority == nil || *pod.Spec.Priority != 2000001000 {
		t.Errorf("its priority is %v", pod.Spec.Priority)
	}
	if pod.Spec.ServiceAccountName != "default" || len(pod.Spec.Volumes) != 1 || pod.Spec.Volumes[0].Projected == nil {
		t.Errorf("its account is %q with the volumes %v", pod.Spec.ServiceAccountName, pod.Spec.Volumes)
	}
	var seconds []int64
	for _, toleration := range pod.Spec.Tolerations {
		if toleration.TolerationSeconds != nil {
			seconds = append(seconds, *toleration.TolerationSeconds)
		}
	}
	if len(seconds) != 2 || seconds[0] != 300 || seconds[1] != 300 {
		t.Errorf("it tolerates %v", pod.Spec.Tolerations)
	}
}

func TestAPodIsRefusedByWhatItsNamespaceAllows(t *testing.T) {
	s := server.Shared(t)
	c := owner(t, s)
	space(t, c, "restricted", map[string]string{"pod-security.kubernetes.io/enforce": "baseline"})
	for name, r := range map[string]struct {
		pod  *v1.Pod
		want string
	}{
		"host network":          {plainPod(func(p *v1.Pod) { p.Spec.HostNetwork = true }), `violates PodSecurity "baseline:latest": host namespaces`},
		"no such priority":      {plainPod(func(p *v1.Pod) { p.Spec.PriorityClassName = "none" }), "no PriorityClass with name none was found"},
		"no such account":       {plainPod(func(p *v1.Pod) { p.Spec.ServiceAccountName = "none" }), `error looking up service account restricted/none`},
		"no such runtime class": {plainPod(func(p *v1.Pod) { p.Spec.RuntimeClassName = new("none") }), `RuntimeClass "none" not found`},
	} {
		_, err := c.CoreV1().Pods("restricted").Create(soon(t), r.pod, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPoliciesDecideToo(t *testing.T) {
	s := server.Shared(t)
	k := newKubectl(t, s)
	space(t, owner(t, s), "policed", map[string]string{"policed": "yes"})
	k.must(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-latest}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {policed: "yes"}}
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  validations:
  - {expression: "object.metadata.name != 'latest'", message: "not latest"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-latest}
spec: {policyName: no-latest, validationActions: [Deny]}
`, "apply", "-f", "-")
	waitFor(t, "the policy to hold", func() bool {
		_, err := k.run("", "-n", "policed", "create", "configmap", "latest", "--dry-run=server")
		return err != nil && strings.Contains(err.Error(), "denied request: not latest")
	})
	k.must(t, "", "-n", "policed", "create", "configmap", "other")
}
