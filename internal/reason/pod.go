package reason

// Reasons of a Pod's life on its node: what podplan and the agent say.
const (
	ContainerCreating  Code = "ContainerCreating"
	PodInitializing    Code = "PodInitializing"
	SandboxFailed      Code = "FailedCreatePodSandBox"
	SidecarNotStarted  Code = "SidecarNotStarted"
	ContainersStopping Code = "ContainersStopping"
)

var podTable = map[Code]entry{
	ContainerCreating: {text: "the container is being created"},
	PodInitializing:   {text: "the Pod's init containers have not all ended with exit code 0"},
	SandboxFailed: {
		text:   "the sandbox of Pod {object} could not be made, {count} time(s) in a row: {detail}",
		remedy: "see the node's container runtime and its network plugins",
	},
	SidecarNotStarted: {
		text:   "sidecar {object} has been running for {asked}, its startup probe has not succeeded yet",
		remedy: "see its log; what is declared after it waits for its startup probe",
	},
	ContainersStopping: {text: "container(s) {object} have {asked} to stop"},
}
