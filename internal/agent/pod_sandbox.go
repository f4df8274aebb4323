package agent

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/agent/spec"
	"muster.dev/muster/internal/podplan"
)

// ownerAnnotation marks the sandboxes of one agent by its root folder, so that
// another cluster's Pods in the same runtime are never taken for orphans.
const ownerAnnotation = "muster.dev/agent-root"

// sandboxTimeout bounds the making of a sandbox, in which the network's plugins run.
const sandboxTimeout = 4 * time.Minute

// startSandbox makes a sandbox in the background. Its number is on disk first, so
// that it is never given twice, whatever dies in between.
func (w *worker) startSandbox(ctx context.Context, id job, busy map[job]bool, pod *v1.Pod, a podplan.Action) {
	if busy[id] || !w.jobs.due(id, w.clock.Now()) {
		return
	}
	if err := w.journal.record(fact{Sandbox: a.Attempt + 1}); err != nil {
		w.log.Error("Recording the sandbox's number failed, will retry", "err", err)
		return
	}
	w.announceSandbox(pod, a)
	w.spawn(ctx, id, busy, func(ctx context.Context) error {
		ctx, cancel := outlive(ctx, sandboxTimeout)
		defer cancel()
		err := w.runSandbox(ctx, pod, a.Attempt)
		w.sandboxTried(err)
		if err != nil {
			w.events.Pod(pod, v1.EventTypeWarning, "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err))
			w.log.Warn("Making the sandbox failed", "attempt", a.Attempt, "err", err)
		}
		return nil // when to try again is podplan's to say
	})
}

// announceSandbox says what a user may not expect of the sandbox that is made now.
func (w *worker) announceSandbox(pod *v1.Pod, a podplan.Action) {
	if a.Reason != "" {
		w.events.Pod(pod, v1.EventTypeNormal, a.Reason, a.Message)
	}
	if fallback := spec.DNSFallback(pod, w.nodeSpec()); fallback != "" {
		w.events.Pod(pod, v1.EventTypeWarning, "MissingClusterDNS", fallback)
	}
	if fields := unenforced(pod); len(fields) > 0 {
		w.events.Pod(pod, v1.EventTypeWarning, "UnenforcedLimit", "muster does not enforce "+strings.Join(fields, ", ")+
			" on disk: what must stay small belongs into an emptyDir with medium: Memory, which has a size")
	}
}

// unenforced are the limits of the Pod that nothing here watches: those on what it
// writes to the node's disk.
func unenforced(pod *v1.Pod) []string {
	var fields []string
	for i, volume := range pod.Spec.Volumes {
		if dir := volume.EmptyDir; dir != nil && dir.SizeLimit != nil && dir.Medium == v1.StorageMediumDefault {
			fields = append(fields, fmt.Sprintf("spec.volumes[%d].emptyDir.sizeLimit (%s)", i, volume.Name))
		}
	}
	for i, c := range pod.Spec.Containers {
		if _, limited := c.Resources.Limits[v1.ResourceEphemeralStorage]; limited {
			fields = append(fields, fmt.Sprintf("spec.containers[%d].resources.limits.ephemeral-storage (%s)", i, c.Name))
		}
	}
	return fields
}

func (w *worker) runSandbox(ctx context.Context, pod *v1.Pod, attempt int) error {
	config, err := w.sandboxConfig(pod, attempt)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(config.LogDirectory, 0o755); err != nil {
		return fmt.Errorf("making log folder: %w", err)
	}
	handler, err := w.runtimeHandler(ctx, pod)
	if err != nil {
		return err
	}
	_, err = w.runtime.RunSandbox(ctx, config, handler)
	return err
}

func (w *worker) sandboxConfig(pod *v1.Pod, attempt int) (*cri.PodSandboxConfig, error) {
	config, err := spec.Sandbox(spec.PodInput{Pod: pod, Node: w.nodeSpec(), Attempt: uint32(attempt)})
	if err != nil {
		return nil, fmt.Errorf("configuring sandbox: %w", err)
	}
	if config.Annotations == nil {
		config.Annotations = map[string]string{}
	}
	config.Annotations[ownerAnnotation] = w.dirs.root
	return config, nil
}

// sandboxTried counts failures in a row; a success forgets them.
func (w *worker) sandboxTried(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.sandboxFailure = nil
		return
	}
	failure := podplan.StartFailure{Reason: "FailedCreatePodSandBox", Message: err.Error(), Count: 1, At: w.clock.Now()}
	if w.sandboxFailure != nil {
		failure.Count += w.sandboxFailure.Count
	}
	w.sandboxFailure = &failure
}

// stopSandbox ends a sandbox; that it has ended is not always to be seen.
func (w *worker) stopSandbox(ctx context.Context, id string) error {
	if err := w.runtime.StopSandbox(ctx, id); err != nil {
		return fmt.Errorf("stopping sandbox: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped[id] = true
	return nil
}

// removeSandbox forgets a sandbox; the runtime forgets its containers with it.
func (w *worker) removeSandbox(ctx context.Context, pod *v1.Pod, seen podplan.Observed, a podplan.Action) error {
	if err := w.runtime.RemoveSandbox(ctx, a.ID); err != nil {
		return fmt.Errorf("removing sandbox: %w", err)
	}
	for _, attempt := range seen.Attempts {
		if attempt.SandboxID == a.ID {
			if err := w.links.remove(pod, attempt.Container, attempt.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeContainer forgets one ended container and its log.
func (w *worker) removeContainer(ctx context.Context, pod *v1.Pod, seen podplan.Observed, a podplan.Action) error {
	if err := w.runtime.RemoveContainer(ctx, a.ID); err != nil {
		return fmt.Errorf("removing container: %w", err)
	}
	for _, attempt := range seen.Attempts {
		if attempt.ID == a.ID {
			return w.links.removeWithLog(pod, attempt.Container, attempt.Number, attempt.ID)
		}
	}
	return nil
}
