package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/agent/spec"
	"muster.dev/muster/internal/podplan"
	"muster.dev/muster/internal/runtime"
)

// startTimeout bounds the making of one container.
const startTimeout = 2 * time.Minute

// startFault is a failed start with the word Kubernetes has for where it failed.
type startFault struct {
	reason string
	err    error
}

func (f *startFault) Error() string { return f.err.Error() }
func (f *startFault) Unwrap() error { return f.err }

// startRecorded starts a container in the background. That it does is in the journal
// first, so that a later agent can tell a start that failed from one that this
// agent's end broke off.
func (w *worker) startRecorded(ctx context.Context, id job, busy map[job]bool, pod *v1.Pod, seen podplan.Observed, a podplan.Action) {
	if busy[id] || !w.jobs.due(id, w.clock.Now()) {
		return
	}
	if err := w.journal.record(fact{Starting: &starting{Container: a.Container, Attempt: a.Attempt}}); err != nil {
		w.log.Error("Recording a start failed, will retry", "container", a.Container, "err", err)
		return
	}
	w.spawn(ctx, id, busy, func(ctx context.Context) error { return w.startContainer(ctx, pod, seen, a) })
}

// startContainer creates and starts one attempt at a container. A failure is
// kept for the next observation; when to try again is podplan's to say.
func (w *worker) startContainer(ctx context.Context, pod *v1.Pod, seen podplan.Observed, a podplan.Action) error {
	container := findContainer(pod, a.Container)
	if container == nil || len(seen.Sandboxes) == 0 {
		panic("podplan started a container the Pod does not have, or without a sandbox: " + a.Container)
	}
	id, fault := w.createAndStart(ctx, pod, container, seen, a)
	w.startTried(a.Container, fault)
	if fault != nil {
		w.events.Container(pod, a.Container, v1.EventTypeWarning, "Failed", "Error: "+fault.Error())
		w.log.Warn("Starting a container failed", "container", a.Container, "attempt", a.Attempt, "reason", fault.reason, "err", fault.err)
		return nil
	}
	w.postStart(ctx, pod, container, seen, id)
	return nil
}

func (w *worker) createAndStart(ctx context.Context, pod *v1.Pod, container *v1.Container, seen podplan.Observed, a podplan.Action) (string, *startFault) {
	ctx, cancel := outlive(ctx, startTimeout)
	defer cancel()
	id, fault := w.create(ctx, pod, container, seen, a)
	if fault != nil {
		return "", fault
	}
	return id, w.start(ctx, pod, container, id, a)
}

// create makes the container, or takes the one that an agent made before it was
// killed.
func (w *worker) create(ctx context.Context, pod *v1.Pod, container *v1.Container, seen podplan.Observed, a podplan.Action) (string, *startFault) {
	if a.ID != "" {
		return a.ID, nil
	}
	config, sandboxConfig, fault := w.containerConfig(ctx, pod, container, seen, a)
	if fault != nil {
		return "", fault
	}
	id, err := w.runtime.CreateContainer(ctx, seen.Sandboxes[0].ID, config, sandboxConfig)
	if err != nil {
		w.changeImage(a.Container, func(s *podplan.ImageState) { s.Present = false }) // it may be gone: look again
		return "", &startFault{"CreateContainerError", err}
	}
	if !w.pulledFor(a) {
		w.events.Container(pod, a.Container, v1.EventTypeNormal, "Pulled",
			fmt.Sprintf("Container image %q already present on machine", container.Image))
	}
	w.events.Container(pod, a.Container, v1.EventTypeNormal, "Created", "Container created")
	return id, nil
}

func (w *worker) start(ctx context.Context, pod *v1.Pod, container *v1.Container, id string, a podplan.Action) *startFault {
	if err := w.links.add(pod, container.Name, a.Attempt, id); err != nil {
		return &startFault{"RunContainerError", err}
	}
	if err := w.runtime.StartContainer(ctx, id); err != nil {
		return &startFault{"RunContainerError", err}
	}
	w.events.Container(pod, a.Container, v1.EventTypeNormal, "Started", "Container started")
	return nil
}

func (w *worker) containerConfig(ctx context.Context, pod *v1.Pod, container *v1.Container, seen podplan.Observed, a podplan.Action) (*cri.ContainerConfig, *cri.PodSandboxConfig, *startFault) {
	image, err := w.runtime.Image(ctx, container.Image)
	if err == nil && image == nil {
		w.changeImage(container.Name, func(s *podplan.ImageState) { s.Present = false })
		err = fmt.Errorf("image %q is no longer on this node", container.Image)
	}
	if err != nil {
		return nil, nil, &startFault{"CreateContainerError", err}
	}
	target, err := targetContainer(pod, container.Name, seen)
	if err != nil {
		return nil, nil, &startFault{"CreateContainerError", err}
	}
	node, ips := w.nodeSpec(), podIPs(pod, seen, w.hostIPs)
	files, err := w.containerFiles(pod, container, node, ips, a.Attempt)
	if err != nil {
		return nil, nil, &startFault{"CreateContainerError", err}
	}
	resolver := w.volumes.Resolver(ctx, pod, w.currentMounts())
	config, err := spec.Container(spec.ContainerInput{
		Pod: pod, Container: container, Node: node, Attempt: uint32(a.Attempt), PodIPs: ips,
		ImageRef: image.ID, ImageUser: imageUser(image),
		Volumes: resolver, Lookup: resolver, Services: w.services(pod),
		HostsFile: files.hosts, TerminationFile: files.termination, Target: target,
	})
	if err != nil {
		return nil, nil, configFault(err)
	}
	sandboxConfig, err := w.sandboxConfig(pod, seen.Sandboxes[0].Attempt)
	if err != nil {
		return nil, nil, &startFault{"CreateContainerConfigError", err}
	}
	return config, sandboxConfig, nil
}

// targetContainer is the ID of the container whose processes an ephemeral container
// asks to see; empty for every other container.
func targetContainer(pod *v1.Pod, name string, seen podplan.Observed) (string, error) {
	e := findEphemeral(pod, name)
	if e == nil || e.TargetContainerName == "" {
		return "", nil
	}
	for _, a := range slices.Backward(seen.Attempts) {
		if a.Container == e.TargetContainerName && a.State == podplan.RunRunning && !a.Gone {
			return a.ID, nil
		}
	}
	return "", fmt.Errorf("unable to find target container %s: it does not run", e.TargetContainerName)
}

func configFault(err error) *startFault {
	var known *spec.ConfigError
	if errors.As(err, &known) {
		return &startFault{known.Reason(), err}
	}
	return &startFault{"CreateContainerConfigError", err}
}

func imageUser(image *runtime.Image) spec.User {
	return spec.User{UID: image.UID, Username: image.Username}
}

// containerFiles are the files the agent itself gives a container.
type containerFiles struct{ hosts, termination string }

func (w *worker) containerFiles(pod *v1.Pod, container *v1.Container, node spec.Node, ips []string, attempt int) (files containerFiles, err error) {
	if files.hosts, err = w.volumes.WriteHosts(w.uid, spec.HostsFile(pod, node, ips)); err != nil {
		return files, err
	}
	if files.termination, err = w.volumes.TerminationFile(w.uid, container.Name, uint32(attempt)); err != nil {
		return files, err
	}
	if err := os.MkdirAll(filepath.Dir(w.links.log(pod, container.Name, attempt)), 0o755); err != nil {
		return files, fmt.Errorf("making log folder: %w", err)
	}
	return files, nil
}

// pulledFor says whether the image was fetched for this very attempt.
func (w *worker) pulledFor(a podplan.Action) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	state, known := w.images[a.Container]
	return known && state.PulledFor == a.Attempt
}

// startTried counts failures in a row; a success forgets them.
func (w *worker) startTried(container string, fault *startFault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if fault == nil {
		delete(w.startFailures, container)
		return
	}
	w.startFailures[container] = podplan.StartFailure{
		Reason: fault.reason, Message: fault.Error(),
		Count: w.startFailures[container].Count + 1, At: w.clock.Now(),
	}
}
