package cri

import (
	"context"

	containers "github.com/containerd/containerd/api/services/containers/v1"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelettypes "k8s.io/kubelet/pkg/types"
)

// owner is the Pod a container or sandbox belongs to; pod is empty when unknown.
type owner struct {
	id      string
	pod     types.UID
	sandbox bool
}

// kindLabel is how containerd's CRI plugin tells sandboxes from containers.
const kindLabel = "io.cri-containerd.kind"

// owners remembers whose the containerd containers are, because an event names
// only the container, and after a removal nobody can be asked. One goroutine uses it.
type owners struct {
	client     *Client
	containers containers.ContainersClient
	known      map[string]owner
}

func newOwners(c *Client) *owners {
	return &owners{client: c, containers: containers.NewContainersClient(c.conn), known: make(map[string]owner)}
}

// learn notes everything that is there now.
func (o *owners) learn(ctx context.Context) error {
	list, err := call(ctx, o.client, "listing containers", o.client.runtime.ListContainers, &cri.ListContainersRequest{})
	if err != nil {
		return err
	}
	sandboxes, err := call(ctx, o.client, "listing sandboxes", o.client.runtime.ListPodSandbox, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	for _, container := range list.Containers {
		o.note(container.Id, container.Labels, false)
	}
	for _, sandbox := range sandboxes.Items {
		o.note(sandbox.Id, sandbox.Labels, true)
	}
	return nil
}

func (o *owners) note(id string, labels map[string]string, sandbox bool) owner {
	who := owner{id: id, pod: types.UID(labels[kubelettypes.KubernetesPodUIDLabel]), sandbox: sandbox}
	o.known[id] = who
	return who
}

// of is the owner of a container or sandbox. One that cannot be asked about any
// more has no Pod, and its event then says that anything may have changed.
func (o *owners) of(ctx context.Context, id string) owner {
	if who, ok := o.known[id]; ok {
		return who
	}
	answer, err := call(ctx, o.client, "reading containerd container "+id, o.containers.Get, &containers.GetContainerRequest{ID: id})
	if err != nil {
		return owner{id: id}
	}
	labels := answer.GetContainer().GetLabels()
	return o.note(id, labels, labels[kindLabel] == "sandbox")
}

func (o *owners) forget(id string) { delete(o.known, id) }
