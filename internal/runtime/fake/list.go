package fake

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"muster.dev/muster/internal/runtime"
)

// List is everything the runtime holds that belongs to a Pod.
func (r *Runtime) List(ctx context.Context) (map[types.UID]runtime.Pod, error) {
	if err := r.enter(ctx, "listing"); err != nil {
		return nil, err
	}
	defer r.mu.Unlock()
	return r.podsLocked(func(types.UID) bool { return true }), nil
}

// Pod is the same for one Pod.
func (r *Runtime) Pod(ctx context.Context, uid types.UID) (runtime.Pod, error) {
	if err := r.enter(ctx, "reading a Pod"); err != nil {
		return runtime.Pod{}, err
	}
	defer r.mu.Unlock()
	return r.podsLocked(func(u types.UID) bool { return u == uid })[uid], nil
}

func (r *Runtime) podsLocked(wanted func(types.UID) bool) map[types.UID]runtime.Pod {
	pods := make(map[types.UID]runtime.Pod)
	for _, s := range r.sandboxes {
		uid := s.pod()
		if uid == "" || !wanted(uid) {
			continue
		}
		pod := pods[uid]
		labels := s.config.GetLabels()
		pod.UID, pod.Namespace, pod.Name = uid, labels[kubelettypes.KubernetesPodNamespaceLabel], labels[kubelettypes.KubernetesPodNameLabel]
		pod.Sandboxes = append(pod.Sandboxes, s.observed())
		pods[uid] = pod
	}
	for _, c := range r.containers {
		if pod, ok := pods[c.sandbox.pod()]; ok {
			pod.Containers = append(pod.Containers, c.observed(c.sandbox.config.GetLogDirectory()))
			pods[pod.UID] = pod
		}
	}
	for _, pod := range pods {
		// IDs count up, so they are the order of making.
		slices.SortFunc(pod.Sandboxes, func(a, b runtime.Sandbox) int { return cmp.Compare(b.ID, a.ID) })
		slices.SortFunc(pod.Containers, func(a, b runtime.Container) int { return cmp.Compare(a.ID, b.ID) })
	}
	return pods
}
