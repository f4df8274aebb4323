package reason

// Reasons of a Pod's life on its node: what podplan and the agent say.
const (
	ContainerCreating Code = "ContainerCreating"
	PodInitializing   Code = "PodInitializing"
)

var podTable = map[Code]entry{
	ContainerCreating: {text: "the container is being created"},
	PodInitializing:   {text: "the Pod's init containers have not all ended with exit code 0"},
}
