package cri

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"muster.dev/muster/internal/runtime"
)

// lookups bounds the status calls one read has under way at a time.
const lookups = 8

// List is everything the runtime holds that belongs to a Pod. What vanishes while
// it is being read is left out.
func (c *Client) List(ctx context.Context) (map[types.UID]runtime.Pod, error) {
	return c.observe(ctx, nil)
}

// Pod is the same for one Pod.
func (c *Client) Pod(ctx context.Context, uid types.UID) (runtime.Pod, error) {
	pods, err := c.observe(ctx, map[string]string{kubelettypes.KubernetesPodUIDLabel: string(uid)})
	return pods[uid], err
}

func (c *Client) observe(ctx context.Context, selector map[string]string) (map[types.UID]runtime.Pod, error) {
	// Containers first: a container made between the two lists is then missing as
	// a whole, never seen without the sandbox it is in.
	containers, err := call(ctx, c, "listing containers", c.runtime.ListContainers,
		&cri.ListContainersRequest{Filter: &cri.ContainerFilter{LabelSelector: selector}})
	if err != nil {
		return nil, err
	}
	sandboxes, err := call(ctx, c, "listing sandboxes", c.runtime.ListPodSandbox,
		&cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{LabelSelector: selector}})
	if err != nil {
		return nil, err
	}
	sandboxStatus, err := each(ctx, sandboxes.Items, func(ctx context.Context, s *cri.PodSandbox) (*cri.PodSandboxStatus, error) {
		return c.sandboxStatus(ctx, s.Id)
	})
	if err != nil {
		return nil, err
	}
	containerStatus, err := each(ctx, containers.Containers, func(ctx context.Context, s *cri.Container) (*cri.ContainerStatus, error) {
		return c.containerStatus(ctx, s.Id)
	})
	if err != nil {
		return nil, err
	}
	pods := make(map[types.UID]runtime.Pod)
	for _, status := range sandboxStatus {
		addSandbox(pods, status)
	}
	for i, status := range containerStatus {
		addContainer(pods, status, containers.Containers[i].PodSandboxId)
	}
	for _, pod := range pods {
		sortPod(pod)
	}
	return pods, nil
}

// each looks every item up, several at a time; the answer of one that is gone is nil.
func each[I, S any](ctx context.Context, items []I, look func(context.Context, I) (*S, error)) ([]*S, error) {
	answers := make([]*S, len(items))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookups)
	for i, item := range items {
		group.Go(func() error {
			answer, err := look(ctx, item)
			if errors.Is(err, runtime.ErrNotFound) {
				return nil
			}
			answers[i] = answer
			return err
		})
	}
	return answers, group.Wait()
}

func (c *Client) sandboxStatus(ctx context.Context, id string) (*cri.PodSandboxStatus, error) {
	answer, err := call(ctx, c, "reading sandbox "+id, c.runtime.PodSandboxStatus, &cri.PodSandboxStatusRequest{PodSandboxId: id})
	return answer.GetStatus(), err
}

func (c *Client) containerStatus(ctx context.Context, id string) (*cri.ContainerStatus, error) {
	answer, err := call(ctx, c, "reading container "+id, c.runtime.ContainerStatus, &cri.ContainerStatusRequest{ContainerId: id})
	return answer.GetStatus(), err
}

// podOf finds or begins the Pod that the labels name; ok is false for what
// belongs to no Pod.
func podOf(pods map[types.UID]runtime.Pod, labels map[string]string) (runtime.Pod, bool) {
	uid := types.UID(labels[kubelettypes.KubernetesPodUIDLabel])
	if uid == "" {
		return runtime.Pod{}, false
	}
	if pod, ok := pods[uid]; ok {
		return pod, true
	}
	return runtime.Pod{
		UID:       uid,
		Namespace: labels[kubelettypes.KubernetesPodNamespaceLabel],
		Name:      labels[kubelettypes.KubernetesPodNameLabel],
	}, true
}

func addSandbox(pods map[types.UID]runtime.Pod, s *cri.PodSandboxStatus) {
	pod, ok := podOf(pods, s.GetLabels())
	if !ok {
		return
	}
	host := s.GetLinux().GetNamespaces().GetOptions().GetNetwork() == cri.NamespaceMode_NODE
	sandbox := runtime.Sandbox{
		ID:          s.Id,
		Attempt:     s.GetMetadata().GetAttempt(),
		Ready:       s.State == cri.PodSandboxState_SANDBOX_READY,
		CreatedAt:   at(s.CreatedAt),
		HostNetwork: host,
		Labels:      s.Labels,
		Annotations: s.Annotations,
	}
	if network := s.GetNetwork(); network.GetIp() != "" && !host {
		sandbox.IPs = append(sandbox.IPs, network.Ip)
		for _, more := range network.AdditionalIps {
			sandbox.IPs = append(sandbox.IPs, more.Ip)
		}
	}
	pod.Sandboxes = append(pod.Sandboxes, sandbox)
	pods[pod.UID] = pod
}

func addContainer(pods map[types.UID]runtime.Pod, s *cri.ContainerStatus, sandboxID string) {
	pod, ok := podOf(pods, s.GetLabels())
	if !ok {
		return
	}
	pod.Containers = append(pod.Containers, runtime.Container{
		ID:          s.Id,
		SandboxID:   sandboxID,
		Name:        cmp.Or(s.Labels[kubelettypes.KubernetesContainerNameLabel], s.GetMetadata().GetName()),
		Attempt:     s.GetMetadata().GetAttempt(),
		State:       stateOf(s.State),
		CreatedAt:   at(s.CreatedAt),
		StartedAt:   at(s.StartedAt),
		FinishedAt:  at(s.FinishedAt),
		ExitCode:    s.ExitCode,
		Reason:      s.Reason,
		Message:     s.Message,
		Image:       cmp.Or(s.GetImage().GetUserSpecifiedImage(), s.GetImage().GetImage()),
		ImageID:     s.ImageRef,
		LogPath:     s.LogPath,
		Labels:      s.Labels,
		Annotations: s.Annotations,
	})
	pods[pod.UID] = pod
}

func sortPod(pod runtime.Pod) {
	slices.SortFunc(pod.Sandboxes, func(a, b runtime.Sandbox) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Attempt, a.Attempt), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(pod.Containers, func(a, b runtime.Container) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
}

func stateOf(s cri.ContainerState) runtime.State {
	switch s {
	case cri.ContainerState_CONTAINER_CREATED:
		return runtime.Created
	case cri.ContainerState_CONTAINER_RUNNING:
		return runtime.Running
	case cri.ContainerState_CONTAINER_EXITED:
		return runtime.Exited
	}
	return runtime.Unknown
}

// at turns CRI's nanoseconds, 0 for never, into a time.
func at(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}
