package agent

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

func TestNodeRefusesWhatDoesNotFit(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		defer n.start(t)()
		first := testPod(apps("main"), hostPort(8080))
		n.api.create(t, first)
		n.await(t, first, time.Minute, "Ready", ready)
		for reason, edit := range map[string]func(*v1.Pod){
			"NodePorts": hostPort(8080),
			"OutOfcpu": func(p *v1.Pod) {
				p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1000")}
			},
			"PodOSNotSupported": func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: v1.Windows} },
			"SysctlForbidden": func(p *v1.Pod) {
				p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "kernel/msgmax", Value: "1"}}}
			},
			"SupplementalGroupsPolicyNotSupported": func(p *v1.Pod) {
				p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: ptr.To(v1.SupplementalGroupsPolicyStrict)}
			},
			"NodeAffinity": func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "elsewhere"} },
		} {
			pod := testPod(apps("main"), edit)
			n.api.create(t, pod)
			got := n.await(t, pod, time.Minute, "refused", inPhase(v1.PodFailed))
			if got.Status.Reason != reason {
				t.Errorf("refused as %s (%s), want %s", got.Status.Reason, got.Status.Message, reason)
			}
		}
		n.api.delete(t, first, 1)
		n.awaitDisk(t, first, time.Minute, func(d disk) bool { return d == disk{} })
		second := testPod(apps("main"), hostPort(8080))
		n.api.create(t, second)
		n.await(t, second, time.Minute, "Ready once the port is free", ready)
	})
}

func TestSysctlsAPodMaySet(t *testing.T) {
	for _, row := range []struct {
		name         string
		network, ipc bool
		want         string
	}{
		{"net.ipv4.tcp_syncookies", false, true, ""},
		{"net.ipv4.tcp_syncookies", true, false, "not allowed with host net enabled"},
		{"kernel.shm_rmid_forced", true, false, ""},
		{"kernel.shm_rmid_forced", false, true, "not allowed with host ipc enabled"},
		{"kernel.msgmax", false, false, "not allowlisted"},
		{"vm.swappiness", false, false, "not allowlisted"},
	} {
		if got := forbidden(row.name, row.network, row.ipc); got != row.want {
			t.Errorf("%+v: %q", row, got)
		}
	}
}
