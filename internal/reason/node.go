package reason

// Reasons why a node refuses a Pod that was bound to it: what the agent says at
// admission. The codes are the status.reason that Kubernetes shows.
const (
	OutOfCPU              Code = "OutOfcpu"
	OutOfMemory           Code = "OutOfmemory"
	OutOfEphemeralStorage Code = "OutOfephemeral-storage"
	OutOfPods             Code = "OutOfpods"
	OutOfResource         Code = "OutOfResource"
	NodePorts             Code = "NodePorts"
	NodeAffinity          Code = "NodeAffinity"
	PodOSNotSupported     Code = "PodOSNotSupported"
	SysctlForbidden       Code = "SysctlForbidden"
	GroupsNotSupported    Code = "SupplementalGroupsPolicyNotSupported"
)

var nodeTable = map[Code]entry{
	OutOfCPU:              outOf,
	OutOfMemory:           outOf,
	OutOfEphemeralStorage: outOf,
	OutOfResource:         outOf,
	OutOfPods: {
		text:   "Node didn't have enough resource: pods",
		remedy: "end other Pods on the node or raise its Pod limit",
	},
	NodePorts: {
		text:   "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
		remedy: "host port {object} is held by Pod {detail}: end it or choose another port",
	},
	NodeAffinity: {
		text:   "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
		remedy: "label the node or change the selector: {object}",
	},
	PodOSNotSupported: {
		text:   "Failed to admit pod as the OS field doesn't match node OS: spec.os.name is {object}",
		remedy: "remove spec.os, or let the Pod run on a node of that system",
	},
	SysctlForbidden: {
		text:   "forbidden sysctl: {object} {detail}",
		remedy: "remove it from spec.securityContext.sysctls, or set it on the node itself",
	},
	GroupsNotSupported: {
		text:   "SupplementalGroupsPolicy=Strict is not supported in this node",
		remedy: "use supplementalGroupsPolicy: Merge, or a container runtime that can do it (containerd 2.0 or newer)",
	},
}

var outOf = entry{
	text:   "Node didn't have enough resource: {object}, requested: {asked}, free: {free}",
	remedy: "lower the request, end other Pods on the node or leave the choice of the node to the scheduler",
}
