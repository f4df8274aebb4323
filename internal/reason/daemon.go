package reason

// Reasons that concern a daemon, its rollout and the holes in its coverage: what
// coverage and daemonset say.
const (
	// RolloutHeld: an update waits because its budget of unavailable Pods is spent.
	RolloutHeld Code = "RolloutHeld"
	// SurgeHeld: an update waits because its budget of extra Pods is spent.
	SurgeHeld Code = "SurgeHeld"
	// HostPortSurge: an update that surges with a host port cannot come to an end.
	HostPortSurge Code = "HostPortSurge"
	// FailedPodBackOff: a failed Pod waits before it is replaced.
	FailedPodBackOff Code = "FailedPodBackOff"

	// Why a Pod of a daemon is created or deleted.
	NodeUncovered  Code = "NodeUncovered"
	NodeNotWanted  Code = "NodeNotWanted"
	NodeGone       Code = "NodeGone"
	DuplicatePod   Code = "DuplicatePod"
	FailedPod      Code = "FailedPod"
	OutdatedPod    Code = "OutdatedPod"
	OutdatedBroken Code = "OutdatedBrokenPod"

	// Why a wanted node's daemon is not Ready.
	PodMissing       Code = "PodMissing"
	PodTerminating   Code = "PodTerminating"
	PodUnschedulable Code = "Unschedulable"
	PodUnplaced      Code = "PodUnplaced"
	SchedulingGated  Code = "SchedulingGated"
	PodFailed        Code = "PodFailed"
	NodeNotReady     Code = "NodeNotReady"
	PodUnseen        Code = "PodUnseen"
	InitRunning      Code = "InitContainerRunning"
	InitFailed       Code = "InitContainerFailed"
	ContainerWaiting Code = "ContainerWaiting"
	ContainerEnded   Code = "ContainerEnded"
	ContainerUnready Code = "ContainerNotReady"
	ReadinessGate    Code = "ReadinessGateFalse"

	// What a container waits for, in the words of its status.
	ErrImagePull      Code = "ErrImagePull"
	ImagePullBackOff  Code = "ImagePullBackOff"
	ErrImageNeverPull Code = "ErrImageNeverPull"
	InvalidImageName  Code = "InvalidImageName"
	ContainerConfig   Code = "CreateContainerConfigError"
	ContainerNotMade  Code = "CreateContainerError"
	ContainerNotRun   Code = "RunContainerError"
)

// pullRemedy is what to do about an image that does not come.
const pullRemedy = "check the image's name and tag, its pull secret, and that the node reaches the registry"

var daemonTable = map[Code]entry{
	RolloutHeld: {
		text:   "the update waits: {count} Pod(s) unavailable, maxUnavailable is {asked}: {object}",
		remedy: "repair or delete the nodes named, or raise maxUnavailable",
	},
	SurgeHeld: {
		text:   "the update waits: {count} node(s) with an extra Pod, maxSurge is {asked}: {object}",
		remedy: "see why the new Pods on the nodes named do not become available, or raise maxSurge",
	},
	HostPortSurge: {
		text:   "maxSurge is set but container {object} asks for a host port: old and new Pod cannot run on one node together",
		remedy: "use maxUnavailable instead of maxSurge, or give up the host port",
	},
	FailedPodBackOff: {
		text:   "failed Pod {object} is replaced in {asked}, after {count} failure(s): {detail}",
		remedy: "see the Pod's status for why it failed",
	},

	NodeUncovered:  {text: "node {object} is eligible and has no Pod"},
	NodeNotWanted:  {text: "node {object} is no longer eligible: {detail}"},
	NodeGone:       {text: "node {object} no longer exists"},
	DuplicatePod:   {text: "node {object} already has an older Pod of this daemon"},
	FailedPod:      {text: "the Pod on node {object} failed: {detail}"},
	OutdatedPod:    {text: "the Pod on node {object} has an outdated revision"},
	OutdatedBroken: {text: "the Pod on node {object} has an outdated revision and is not ready"},

	PodMissing: {
		text:   "no Pod has been created yet",
		remedy: "if this lasts, see the events of the DaemonSet",
	},
	PodTerminating: {
		text:   "Pod {object} is being deleted since {detail}",
		remedy: "if its node is gone for good, delete the Node object or force the Pod's deletion",
	},
	PodUnschedulable: {
		text:   "Pod {object} fits on no node: {detail}",
		remedy: "free what is short on the node, ask for less, or give the daemon a higher priorityClassName",
	},
	PodUnplaced: {text: "Pod {object} waits to be placed on its node"},
	SchedulingGated: {
		text:   "Pod {object} waits for its scheduling gates: {detail}",
		remedy: "whoever set the gates must remove them",
	},
	PodFailed: {
		text:   "Pod {object} failed: {detail}",
		remedy: "it is replaced after a back-off; see why it was refused or evicted",
	},
	NodeNotReady: {
		text:   "node {object} is not ready: {detail}",
		remedy: "repair the node, or delete the Node object if it is gone for good",
	},
	PodUnseen: {
		text:   "the node has not started Pod {object} yet",
		remedy: "if this lasts, see the agent on the node",
	},
	InitRunning: {
		text:   "init container {object} has been running for {asked}",
		remedy: "see its log; an init container must end with exit code 0 before the next step",
	},
	InitFailed: {
		text:   "init container {object} ended with {detail}, {count} attempt(s) so far",
		remedy: "see the log of its last attempt (logs -c {object} --previous)",
	},
	ContainerWaiting: {
		text:   "container {object} waits: {detail}",
		remedy: "see the events of the Pod",
	},
	ContainerEnded: {
		text:   "container {object} ended with {detail}, {count} attempt(s) so far",
		remedy: "see the log of its last attempt (logs -c {object} --previous)",
	},
	ContainerUnready: {
		text:   "container {object} runs but is not ready",
		remedy: "see why its readiness or startup probe does not succeed",
	},
	ErrImagePull:     {text: "the image of container {object} cannot be pulled: {detail}", remedy: pullRemedy},
	ImagePullBackOff: {text: "the image of container {object} cannot be pulled: {detail}", remedy: pullRemedy},
	ErrImageNeverPull: {
		text:   "the image of container {object} is not on the node and may not be pulled: {detail}",
		remedy: "import the image on the node, or change imagePullPolicy",
	},
	InvalidImageName: {
		text:   "the image name of container {object} is not valid: {detail}",
		remedy: "correct the image in the Pod template",
	},
	ContainerConfig: {
		text:   "container {object} cannot be configured: {detail}",
		remedy: "create the config map, the secret or the key that is named, or correct the Pod template",
	},
	ContainerNotMade: {
		text:   "container {object} cannot be created: {detail}",
		remedy: "see the events of the Pod and the container runtime on the node",
	},
	ContainerNotRun: {
		text:   "container {object} cannot be started: {detail}",
		remedy: "check its command and its security context; see the events of the Pod",
	},
	ReadinessGate: {
		text:   "readiness gate {object} is not true: {detail}",
		remedy: "whoever owns the condition must set it",
	},
}
