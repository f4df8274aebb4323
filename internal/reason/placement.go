package reason

// Reasons why a Pod does not fit on a node: what placement says.
const (
	UntoleratedTaint     Code = "UntoleratedTaint"
	NodeSelector         Code = "NodeSelectorMismatch"
	NodeName             Code = "NodeNameMismatch"
	NodeUnknown          Code = "NodeUnknown"
	Unschedulable        Code = "NodeUnschedulable"
	InsufficientResource Code = "InsufficientResource"
	TooManyPods          Code = "TooManyPods"
	HostPortTaken        Code = "HostPortTaken"
	PodAffinity          Code = "PodAffinityMismatch"
	PodAntiAffinity      Code = "PodAntiAffinityMismatch"
	ExistingAntiAffinity Code = "ExistingPodsAntiAffinityMismatch"
	TopologySpread       Code = "TopologySpreadMismatch"
	TopologySpreadLabel  Code = "TopologySpreadMissingLabel"

	// UnservedField is in the Pod itself; for it no node can take the Pod.
	UnservedField Code = "UnservedField"
)

var placementTable = map[Code]entry{
	UntoleratedTaint: {
		text:   "untolerated taint {object}",
		remedy: "add a toleration for {object} to the Pod template",
	},
	NodeSelector: {
		text:   "node(s) didn't match Pod's node affinity/selector",
		remedy: "label the node or change the selector: {object}",
	},
	NodeName: {
		text:   "node(s) didn't match the requested node name",
		remedy: "the Pod asks for node {object} by name: remove spec.nodeName to let it go elsewhere",
	},
	NodeUnknown: {
		text:   "node {object} is not known",
		remedy: "check the name, or wait until the node has joined",
	},
	Unschedulable: {
		text:   "node(s) were unschedulable",
		remedy: "kubectl uncordon {object}",
	},
	InsufficientResource: {
		text:   "Insufficient {object}",
		remedy: "the Pod asks for {asked} of {object} and {free} is free: lower the request, end other Pods or add a node",
	},
	TooManyPods: {
		text:   "Too many pods",
		remedy: "end other Pods on the node, raise its Pod limit or add a node",
	},
	HostPortTaken: {
		text:   "node(s) didn't have free ports for the requested pod ports",
		remedy: "host port {object} is held by Pod {detail}: end it or choose another port",
	},
	PodAffinity: {
		text:   "node(s) didn't match pod affinity rules",
		remedy: "the Pod wants company in its {object}: start that first, or change spec.affinity.podAffinity",
	},
	PodAntiAffinity: {
		text:   "node(s) didn't match pod anti-affinity rules",
		remedy: "the Pod keeps away from Pods in the same {object}: move those, or change spec.affinity.podAntiAffinity",
	},
	ExistingAntiAffinity: {
		text:   "node(s) didn't satisfy existing pods anti-affinity rules",
		remedy: "Pod {detail} in the same {object} keeps this Pod away: move it, or change its spec.affinity.podAntiAffinity",
	},
	TopologySpread: {
		text:   "node(s) didn't match pod topology spread constraints",
		remedy: "the Pod would make {object} too uneven: make room in the emptier ones, or raise maxSkew",
	},
	TopologySpreadLabel: {
		text:   "node(s) didn't match pod topology spread constraints (missing required label)",
		remedy: "label the node with {object}",
	},
	UnservedField: {
		text:   "{object} is not acted on in this cluster",
		remedy: "{detail}",
	},
}
