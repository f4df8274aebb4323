package reason

// Reasons in the life of nodes and of the Pods they leave behind: what nodelife
// says.
const (
	NodeStatusUnknown      Code = "NodeStatusUnknown"
	NodeStatusNeverUpdated Code = "NodeStatusNeverUpdated"

	// DeletionByPodGC: the node a Pod is bound to no longer exists.
	DeletionByPodGC Code = "DeletionByPodGC"
	// TerminatingUnbound: a Pod is to go and was never bound, so nobody ends it.
	TerminatingUnbound Code = "TerminatingUnscheduledPod"
	// TerminatingOutOfService: a Pod is to go and its node is said to be off.
	TerminatingOutOfService Code = "TerminatingOnOutOfServiceNode"
	// TooManyEnded: more ended Pods are kept than agreed.
	TooManyEnded Code = "TerminatedPodThreshold"
)

var nodelifeTable = map[Code]entry{
	NodeStatusUnknown: {
		text:   "Kubelet stopped posting node status.",
		remedy: "node {object} was last heard of {asked} ago: repair it, or delete the Node object if it is gone for good",
	},
	NodeStatusNeverUpdated: {
		text:   "Kubelet never posted node status.",
		remedy: "start the agent on node {object}, or delete the Node object",
	},
	DeletionByPodGC:         {text: "PodGC: node no longer exists"},
	TerminatingUnbound:      {text: "the Pod is being deleted and was never bound to a node"},
	TerminatingOutOfService: {text: "the Pod is being deleted and its node {object} is out of service"},
	TooManyEnded:            {text: "{count} ended Pods are kept, {asked} is the most: the oldest go"},
}
