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
}

var outOf = entry{
	text:   "Node didn't have enough resource: {object}, requested: {asked}, free: {free}",
	remedy: "lower the request, end other Pods on the node or leave the choice of the node to the scheduler",
}
