package cri

import (
	"context"
	"fmt"
	"net/url"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
)

// ExecSync runs a command in a container and waits for its end; timeout is
// rounded up to whole seconds as CRI counts them, and 0 means Options.LongTimeout.
// A command that outran its time is runtime.ErrTimedOut.
func (c *Client) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (runtime.ExecResult, error) {
	if timeout <= 0 {
		timeout = c.options.LongTimeout
	}
	seconds := int64((timeout + time.Second - 1) / time.Second)
	answer, err := callWithin(ctx, timeout+c.options.CallTimeout, "running a command in container "+id, c.runtime.ExecSync,
		&cri.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: seconds})
	return runtime.ExecResult{Stdout: answer.GetStdout(), Stderr: answer.GetStderr(), ExitCode: answer.GetExitCode()}, err
}

// Exec prepares a command whose streams the caller takes from the returned address.
func (c *Client) Exec(ctx context.Context, request *cri.ExecRequest) (*url.URL, error) {
	answer, err := call(ctx, c, "preparing exec in container "+request.GetContainerId(), c.runtime.Exec, request)
	return streamURL(answer.GetUrl(), err)
}

// Attach prepares the streams of a container's PID 1.
func (c *Client) Attach(ctx context.Context, request *cri.AttachRequest) (*url.URL, error) {
	answer, err := call(ctx, c, "preparing attach to container "+request.GetContainerId(), c.runtime.Attach, request)
	return streamURL(answer.GetUrl(), err)
}

// PortForward prepares connections to ports of a sandbox.
func (c *Client) PortForward(ctx context.Context, request *cri.PortForwardRequest) (*url.URL, error) {
	answer, err := call(ctx, c, "preparing port forward to sandbox "+request.GetPodSandboxId(), c.runtime.PortForward, request)
	return streamURL(answer.GetUrl(), err)
}

func streamURL(text string, err error) (*url.URL, error) {
	if err != nil {
		return nil, err
	}
	address, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("reading the runtime's stream address: %w", err)
	}
	return address, nil
}
