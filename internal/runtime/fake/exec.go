package fake

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
)

// errNoStreams answers calls for streams: there is no process to talk to.
var errNoStreams = errors.New("a simulated container has no streams")

// ExecSync runs a command as the Script says.
func (r *Runtime) ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (runtime.ExecResult, error) {
	doing := "running a command in container " + id
	if err := r.enter(ctx, doing); err != nil {
		return runtime.ExecResult{}, err
	}
	c, ok := r.containers[id]
	script := r.script
	running := ok && c.state == runtime.Running
	r.mu.Unlock()
	switch {
	case !ok:
		return runtime.ExecResult{}, fmt.Errorf("%s: %w", doing, runtime.ErrNotFound)
	case !running:
		return runtime.ExecResult{}, fmt.Errorf("%s: container is not running", doing)
	}
	exec := script.exec(c.config, command)
	late := timeout > 0 && exec.Takes > timeout
	if late {
		exec.Takes = timeout
	}
	if err := r.wait(ctx, exec.Takes); err != nil {
		return runtime.ExecResult{}, fmt.Errorf("%s: %w", doing, err)
	}
	if late {
		return runtime.ExecResult{}, fmt.Errorf("%s: %w", doing, runtime.ErrTimedOut)
	}
	if exec.Failure != nil {
		return runtime.ExecResult{}, fmt.Errorf("%s: %w", doing, exec.Failure)
	}
	return exec.Result, nil
}

// Exec refuses.
func (r *Runtime) Exec(context.Context, *cri.ExecRequest) (*url.URL, error) {
	return nil, errNoStreams
}

// Attach refuses.
func (r *Runtime) Attach(context.Context, *cri.AttachRequest) (*url.URL, error) {
	return nil, errNoStreams
}

// PortForward refuses.
func (r *Runtime) PortForward(context.Context, *cri.PortForwardRequest) (*url.URL, error) {
	return nil, errNoStreams
}
