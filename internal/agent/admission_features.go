package agent

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/util/sysctl"
	"k8s.io/utils/ptr"

	"muster.dev/muster/internal/reason"
)

// safeSysctls are the kernel parameters that a Pod may set for itself: they touch
// no other Pod and nothing of the node.
var safeSysctls = []string{
	"kernel.shm_rmid_forced",
	"net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ping_group_range",
	"net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_notsent_lowat", "net.ipv4.tcp_rmem", "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_syncookies",
	"net.ipv4.tcp_wmem",
}

// cannotRun is why a node can never run the Pod as it is written, however empty
// the node is; nil when it can.
func cannotRun(pod *v1.Pod, node *v1.Node) *reason.Reason {
	if os := pod.Spec.OS; os != nil && os.Name != v1.Linux {
		return &reason.Reason{Code: reason.PodOSNotSupported, Object: string(os.Name)}
	}
	of := pod.Spec.SecurityContext
	if of == nil {
		return nil
	}
	for _, s := range of.Sysctls {
		if why := forbidden(sysctl.NormalizeName(s.Name), pod.Spec.HostNetwork, pod.Spec.HostIPC); why != "" {
			return &reason.Reason{Code: reason.SysctlForbidden, Object: `"` + s.Name + `"`, Detail: why}
		}
	}
	features := ptr.Deref(node.Status.Features, v1.NodeFeatures{})
	strict := ptr.Deref(of.SupplementalGroupsPolicy, v1.SupplementalGroupsPolicyMerge) == v1.SupplementalGroupsPolicyStrict
	if strict && !ptr.Deref(features.SupplementalGroupsPolicy, false) {
		return &reason.Reason{Code: reason.GroupsNotSupported}
	}
	return nil
}

// forbidden says why a Pod may not set a kernel parameter; empty when it may.
func forbidden(name string, hostNetwork, hostIPC bool) string {
	switch {
	case !slices.Contains(safeSysctls, name):
		return "not allowlisted"
	case hostNetwork && strings.HasPrefix(name, "net."):
		return "not allowed with host net enabled"
	case hostIPC && strings.HasPrefix(name, "kernel.shm"):
		return "not allowed with host ipc enabled"
	}
	return ""
}
