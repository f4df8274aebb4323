package agent

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/agent/spec"
	"muster.dev/muster/internal/podplan"
)

// release takes away what an ended Pod held. A Pod that is being deleted then
// loses its API object, and once that is gone all that is left here: logs, links
// and, last of all, the agent's memory of it.
func (w *worker) release(ctx context.Context, pod *v1.Pod, seen podplan.Observed) error {
	w.admission.free(pod)
	w.probes.Remove(w.uid)
	if err := w.volumes.Remove(ctx, w.uid); err != nil {
		return err
	}
	if err := removeCgroup(spec.CgroupParent(pod, w.nodeSpec())); err != nil {
		return err
	}
	switch {
	case seen.Removed:
		return w.forget(ctx, pod)
	case pod.DeletionTimestamp != nil:
		return w.deleteObject(ctx, pod)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.released = true
	return nil
}

// deleteObject ends the deletion that somebody asked for. The watch brings the
// news that the object is gone, at once or when its last finalizer is.
func (w *worker) deleteObject(ctx context.Context, pod *v1.Pod) error {
	if w.isDeleted() {
		return nil
	}
	err := w.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64),
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, perhaps with a successor of its name
		w.remove(pod)
		return nil
	case err != nil:
		return fmt.Errorf("deleting the Pod's object: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deleted = true
	return nil
}

// forget removes the last traces of a Pod.
func (w *worker) forget(ctx context.Context, pod *v1.Pod) error {
	found, err := w.runtime.Pod(ctx, w.uid)
	if err != nil {
		return fmt.Errorf("reading the runtime: %w", err)
	}
	for _, s := range found.Sandboxes {
		if err := w.runtime.StopSandbox(ctx, s.ID); err != nil {
			return fmt.Errorf("stopping sandbox: %w", err)
		}
		if err := w.runtime.RemoveSandbox(ctx, s.ID); err != nil {
			return fmt.Errorf("removing sandbox: %w", err)
		}
	}
	if err := w.links.removeAll(pod); err != nil {
		return err
	}
	if err := os.RemoveAll(w.dirs.memory(w.uid)); err != nil {
		return fmt.Errorf("removing journal: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished = true
	return nil
}

func (w *worker) isDeleted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deleted
}

// owesRelease says that there is still something of the Pod to take away.
func (w *worker) owesRelease(pod *v1.Pod, seen podplan.Observed) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case seen.Removed:
		return true
	case pod.DeletionTimestamp != nil:
		return !w.deleted // else the watch will tell
	}
	return !w.released
}
