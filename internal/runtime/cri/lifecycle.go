package cri

import (
	"context"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RunSandbox creates and starts a Pod's sandbox.
func (c *Client) RunSandbox(ctx context.Context, config *cri.PodSandboxConfig, handler string) (string, error) {
	answer, err := call(ctx, c, "running sandbox for "+config.GetMetadata().GetName(), c.runtime.RunPodSandbox,
		&cri.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	return answer.GetPodSandboxId(), err
}

// StopSandbox ends every process of the sandbox and frees its network.
func (c *Client) StopSandbox(ctx context.Context, id string) error {
	_, err := call(ctx, c, "stopping sandbox "+id, c.runtime.StopPodSandbox, &cri.StopPodSandboxRequest{PodSandboxId: id})
	return gone(err)
}

// RemoveSandbox forgets a stopped sandbox and its containers.
func (c *Client) RemoveSandbox(ctx context.Context, id string) error {
	_, err := call(ctx, c, "removing sandbox "+id, c.runtime.RemovePodSandbox, &cri.RemovePodSandboxRequest{PodSandboxId: id})
	return gone(err)
}

// CreateContainer makes a container in a sandbox without starting it.
func (c *Client) CreateContainer(ctx context.Context, sandboxID string, config *cri.ContainerConfig, sandbox *cri.PodSandboxConfig) (string, error) {
	answer, err := call(ctx, c, "creating container "+config.GetMetadata().GetName(), c.runtime.CreateContainer,
		&cri.CreateContainerRequest{PodSandboxId: sandboxID, Config: config, SandboxConfig: sandbox})
	return answer.GetContainerId(), err
}

// StartContainer starts a created container.
func (c *Client) StartContainer(ctx context.Context, id string) error {
	_, err := call(ctx, c, "starting container "+id, c.runtime.StartContainer, &cri.StartContainerRequest{ContainerId: id})
	return err
}

// StopContainer asks PID 1 to end, waits for grace, rounded up to whole seconds
// as CRI counts them, then kills.
func (c *Client) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	grace = max(grace, 0)
	seconds := int64((grace + time.Second - 1) / time.Second)
	_, err := callWithin(ctx, grace+c.options.CallTimeout, "stopping container "+id, c.runtime.StopContainer,
		&cri.StopContainerRequest{ContainerId: id, Timeout: seconds})
	return gone(err)
}

// RemoveContainer forgets an ended container.
func (c *Client) RemoveContainer(ctx context.Context, id string) error {
	_, err := call(ctx, c, "removing container "+id, c.runtime.RemoveContainer, &cri.RemoveContainerRequest{ContainerId: id})
	return gone(err)
}

// ReopenLog makes the runtime reopen a container's log file after rotation.
func (c *Client) ReopenLog(ctx context.Context, id string) error {
	_, err := call(ctx, c, "reopening the log of container "+id, c.runtime.ReopenContainerLog, &cri.ReopenContainerLogRequest{ContainerId: id})
	return err
}
