package fake

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"muster.dev/muster/internal/runtime"
)

// killed is the exit code of a process ended by SIGKILL.
const killed = 128 + 9

type container struct {
	id         string
	sandbox    *sandbox
	config     *cri.ContainerConfig
	imageID    string
	run        Run
	state      runtime.State
	createdAt  time.Time
	startedAt  time.Time
	finishedAt time.Time
	exitCode   int32
	reason     string
	ended      chan struct{} // made by whoever waits for the end
}

func sortByID(all []*container) {
	slices.SortFunc(all, func(a, b *container) int { return cmp.Compare(a.id, b.id) })
}

// CreateContainer makes a container in a sandbox without starting it.
func (r *Runtime) CreateContainer(ctx context.Context, sandboxID string, config *cri.ContainerConfig, _ *cri.PodSandboxConfig) (string, error) {
	doing := "creating container " + config.GetMetadata().GetName()
	if err := r.enter(ctx, doing); err != nil {
		return "", err
	}
	defer r.mu.Unlock()
	s, ok := r.sandboxes[sandboxID]
	if !ok {
		return "", fmt.Errorf("%s: sandbox %s: %w", doing, sandboxID, runtime.ErrNotFound)
	}
	if !s.ready {
		return "", fmt.Errorf("%s: sandbox %s is not running", doing, sandboxID)
	}
	image, ok := r.imageLocked(config.GetImage().GetImage())
	if !ok {
		return "", fmt.Errorf("%s: image %q: %w", doing, config.GetImage().GetImage(), runtime.ErrNotFound)
	}
	for _, other := range r.containersOfLocked(sandboxID) {
		if m, n := other.config.GetMetadata(), config.GetMetadata(); m.GetName() == n.GetName() && m.GetAttempt() == n.GetAttempt() {
			return "", fmt.Errorf("%s: the name of attempt %d is reserved for %s", doing, n.GetAttempt(), other.id)
		}
	}
	c := &container{id: r.newIDLocked(), sandbox: s, config: proto.CloneOf(config), imageID: image.ID, state: runtime.Created, createdAt: r.clock.Now()}
	r.containers[c.id] = c
	r.announceLocked(s.pod(), c.id)
	return c.id, nil
}

// StartContainer starts a created container; from here on the Script's Run happens.
func (r *Runtime) StartContainer(ctx context.Context, id string) error {
	doing := "starting container " + id
	if err := r.enter(ctx, doing); err != nil {
		return err
	}
	c, err := r.startableLocked(id)
	script := r.script
	r.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	run := script.container(Start{ID: id, Sandbox: c.sandbox.config, Config: c.config, Attempt: c.config.GetMetadata().GetAttempt()})
	if err := r.wait(ctx, run.Delay); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if err := r.enter(ctx, doing); err != nil {
		return err
	}
	defer r.mu.Unlock()
	if c, err = r.startableLocked(id); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if run.Refusal != nil {
		// A container that could not be started has ended, as containerd has it.
		c.startedAt = r.clock.Now()
		r.finishLocked(c, 128, "StartError")
		return fmt.Errorf("%s: %w", doing, run.Refusal)
	}
	return r.startLocked(c, run)
}

func (r *Runtime) startableLocked(id string) (*container, error) {
	c, ok := r.containers[id]
	if !ok {
		return nil, runtime.ErrNotFound
	}
	if c.state != runtime.Created {
		return nil, fmt.Errorf("container is in state %s", c.state)
	}
	if !c.sandbox.ready {
		return nil, fmt.Errorf("sandbox %s is not running", c.sandbox.id)
	}
	return c, nil
}

func (r *Runtime) startLocked(c *container, run Run) error {
	if err := writeLog(c.logPath(r.logDirectory(c.sandbox.config)), r.clock.Now(), run.Output); err != nil {
		return err
	}
	c.run, c.state, c.startedAt = run, runtime.Running, r.clock.Now()
	if run.Ends {
		r.timers.after(run.After, func() { r.endLocked(c, run.ExitCode, run.Reason) })
	}
	r.announceLocked(c.sandbox.pod(), c.id)
	return nil
}

func (c *container) logPath(directory string) string {
	if directory == "" || c.config.GetLogPath() == "" {
		return ""
	}
	return filepath.Join(directory, c.config.GetLogPath())
}

// endLocked ends a container that has not ended yet; one never started keeps its
// state, as it has no process.
func (r *Runtime) endLocked(c *container, code int32, reason string) {
	if c.state == runtime.Running {
		r.finishLocked(c, code, reason)
	}
}

func (r *Runtime) finishLocked(c *container, code int32, reason string) {
	if reason == "" {
		reason = "Completed"
		if code != 0 {
			reason = "Error"
		}
	}
	c.state, c.exitCode, c.reason, c.finishedAt = runtime.Exited, code, reason, r.clock.Now()
	if c.ended != nil {
		close(c.ended)
	}
	r.announceLocked(c.sandbox.pod(), c.id)
}

// StopContainer asks the container to end, and kills it after grace.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	if err := r.enter(ctx, "stopping container "+id); err != nil {
		return err
	}
	c, ok := r.containers[id]
	if !ok || c.state != runtime.Running {
		r.mu.Unlock()
		return nil
	}
	if c.ended == nil {
		c.ended = make(chan struct{})
	}
	ended := c.ended
	switch {
	case grace <= 0:
		r.endLocked(c, killed, "")
	case c.run.Stubborn, c.run.StopDelay > grace:
		r.timers.after(grace, func() { r.endLocked(c, killed, "") })
	case c.run.StopDelay <= 0:
		r.endLocked(c, c.run.StopCode, "")
	default:
		r.timers.after(c.run.StopDelay, func() { r.endLocked(c, c.run.StopCode, "") })
	}
	r.mu.Unlock()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping container %s: %w", id, contextError(ctx))
	}
}

// RemoveContainer forgets a container, killing it first if it runs.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	if err := r.enter(ctx, "removing container "+id); err != nil {
		return err
	}
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return nil
	}
	r.endLocked(c, killed, "")
	delete(r.containers, id)
	r.announceLocked(c.sandbox.pod(), id)
	return nil
}

func (c *container) observed(logDirectory string) runtime.Container {
	return runtime.Container{
		ID:          c.id,
		SandboxID:   c.sandbox.id,
		Name:        cmp.Or(c.config.GetLabels()[kubelettypes.KubernetesContainerNameLabel], c.config.GetMetadata().GetName()),
		Attempt:     c.config.GetMetadata().GetAttempt(),
		State:       c.state,
		CreatedAt:   c.createdAt,
		StartedAt:   c.startedAt,
		FinishedAt:  c.finishedAt,
		ExitCode:    c.exitCode,
		Reason:      c.reason,
		Image:       cmp.Or(c.config.GetImage().GetUserSpecifiedImage(), c.config.GetImage().GetImage()),
		ImageID:     c.imageID,
		LogPath:     c.logPath(logDirectory),
		Labels:      c.config.GetLabels(),
		Annotations: c.config.GetAnnotations(),
	}
}
