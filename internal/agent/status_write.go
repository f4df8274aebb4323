package agent

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"muster.dev/muster/internal/podplan"
)

// statusPatience is how long a status may wait for the start or end of a container
// or sandbox that is under way, to be written with its outcome in one piece.
const statusPatience = 200 * time.Millisecond

// publish brings the API's view of the Pod up to what was observed, beside the
// loop, so that a slow API never holds up the Pod. It returns whether the API has
// acknowledged this very status, or there is no one left to tell.
func (w *worker) publish(ctx context.Context, pod *v1.Pod, seen podplan.Observed, changing bool, now time.Time) (written bool) {
	status := podplan.Status(pod, seen, now)
	w.announceStatus(pod, w.show(status), status)
	if seen.Removed || w.isDeleted() || samePodStatus(pod.Status, status) {
		w.publishAt = time.Time{}
		return true
	}
	if w.publishAt.IsZero() {
		w.publishAt = now.Add(statusPatience)
	}
	if changing && now.Before(w.publishAt) {
		return false
	}
	w.publishAt = time.Time{}
	w.spawn(ctx, job{verb: writeStatus}, nil, func(ctx context.Context) error {
		return w.writeStatus(ctx, pod, seen, now)
	})
	return false
}

// underWay says that a sandbox or container is being made or ended, or about to be.
func underWay(d podplan.Decision, busy map[job]bool) bool {
	for id := range busy {
		if changesStatus[id.verb] {
			return true
		}
	}
	return slices.ContainsFunc(d.Actions, func(a podplan.Action) bool { return changesStatus[a.Verb] })
}

// changesStatus are the verbs after which the status is not what it was.
var changesStatus = map[podplan.Verb]bool{
	podplan.PrepareVolumes: true, podplan.RunSandbox: true, podplan.StartContainer: true,
	podplan.StopContainer: true, podplan.StopSandbox: true,
}

// show keeps the status for whoever asks and returns the one before; at first
// that is the API's, so that a restart of the agent announces nothing twice.
func (w *worker) show(status v1.PodStatus) (before v1.PodStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before = w.pod.Status
	if w.shown != nil {
		before = *w.shown
	}
	w.shown = &status
	return before
}

// writeStatus PUTs the whole status with the resource version it was worked out
// from. On a conflict the status is worked out again over the newer object, so
// that what others wrote there is kept.
func (w *worker) writeStatus(ctx context.Context, pod *v1.Pod, seen podplan.Observed, now time.Time) error {
	pods := w.client.CoreV1().Pods(pod.Namespace)
	for {
		want := pod.DeepCopy()
		want.Status = podplan.Status(pod, seen, now)
		got, err := pods.UpdateStatus(ctx, want, metav1.UpdateOptions{})
		if err == nil {
			w.update(slim(got))
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsForbidden(err) {
			return w.gone(pod, fmt.Errorf("writing status: %w", err))
		}
		newer, failure := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if failure != nil {
			return w.gone(pod, fmt.Errorf("reading the Pod after a conflict: %w", failure))
		}
		// Old labels are forbidden before the conflict is seen.
		if apierrors.IsForbidden(err) && newer.ResourceVersion == pod.ResourceVersion {
			return fmt.Errorf("writing status: %w", err)
		}
		if newer.UID != w.uid {
			w.remove(pod) // another Pod has the name now
			return nil
		}
		pod = slim(newer)
		w.update(pod)
	}
}

// gone takes the API's word that the Pod does not exist for an answer.
func (w *worker) gone(pod *v1.Pod, err error) error {
	if apierrors.IsNotFound(err) {
		w.remove(pod)
		return nil
	}
	return err
}

// samePodStatus compares two statuses as the API stores them, with times of
// whole seconds.
func samePodStatus(a, b v1.PodStatus) bool {
	stored, errA := a.Marshal()
	wanted, errB := b.Marshal()
	return errA == nil && errB == nil && bytes.Equal(stored, wanted)
}

// newerPod compares two states of one Pod by their resource versions.
func newerPod(a, b *v1.Pod) bool {
	if a.ResourceVersion == b.ResourceVersion {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err != nil || order > 0 // incomparable: the later news
}

// slim drops what the agent never reads of a Pod object.
func slim(pod *v1.Pod) *v1.Pod {
	pod.ManagedFields = nil
	return pod
}
