package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/internal/agent/endpoint"
	"muster.dev/muster/internal/runtime"
)

var _ endpoint.Pods = (*pods)(nil)

// Pod finds a Pod by its name; of two with one name the one that is not ending.
func (p *pods) Pod(namespace, name string) (*v1.Pod, bool) {
	var found *v1.Pod
	for _, pod := range p.Pods() {
		if pod.Namespace == namespace && pod.Name == name && (found == nil || pod.DeletionTimestamp == nil) {
			found = pod
		}
	}
	return found, found != nil
}

// Pods lists all Pods of this node with the statuses the agent last gave them.
func (p *pods) Pods() []*v1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*v1.Pod, 0, len(p.workers))
	for _, w := range p.workers {
		list = append(list, w.view())
	}
	slices.SortFunc(list, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return list
}

// Runs are the runs of a container that once started, the newest first.
func (p *pods) Runs(ctx context.Context, uid types.UID, container string) ([]endpoint.Run, error) {
	found, err := p.runtime.Pod(ctx, uid)
	if err != nil {
		return nil, fmt.Errorf("reading the runtime: %w", err)
	}
	pod := podOf(found)
	var runs []endpoint.Run
	for _, c := range slices.Backward(found.Containers) {
		if c.Name == container && (c.State == runtime.Running || c.State == runtime.Exited) {
			runs = append(runs, endpoint.Run{
				ContainerID: c.ID, LogPath: p.links.log(pod, c.Name, int(c.Attempt)), Running: c.State == runtime.Running,
			})
		}
	}
	return runs, nil
}

// Sandbox is the ID of the Pod's ready sandbox; empty when there is none.
func (p *pods) Sandbox(ctx context.Context, uid types.UID) (string, error) {
	found, err := p.runtime.Pod(ctx, uid)
	if err != nil {
		return "", fmt.Errorf("reading the runtime: %w", err)
	}
	if len(found.Sandboxes) == 0 || !found.Sandboxes[0].Ready {
		return "", nil
	}
	return found.Sandboxes[0].ID, nil
}

// view is the Pod with its newest status, acknowledged by the API or not.
func (w *worker) view() *v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod := *w.pod
	if w.shown != nil {
		pod.Status = *w.shown
	}
	return &pod
}
