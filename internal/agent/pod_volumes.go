package agent

import (
	"context"
	"errors"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/agent/volume"
	"muster.dev/muster/internal/podplan"
	"muster.dev/muster/internal/reason"
)

// volumeRefresh is how often a running Pod's volumes follow their sources.
const volumeRefresh = time.Minute

// prepareVolumes puts the Pod's volumes in place. Failing is ordinary: a config
// map may come later, and a node may read a secret only a moment after its Pod
// was bound.
func (w *worker) prepareVolumes(ctx context.Context, pod *v1.Pod) error {
	mounts, err := w.volumes.Prepare(ctx, pod)
	if err != nil {
		w.volumesFailed(err)
		if ctx.Err() == nil {
			w.events.Pod(pod, v1.EventTypeWarning, "FailedMount", mountFailure(err))
		}
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prepared, w.mounts = podplan.Preparation{Ready: true}, mounts
	return nil
}

// mountFailure is what the event says: where waiting alone never helps, also what
// to do.
func mountFailure(err error) string {
	var waiting *volume.NotReady
	if errors.As(err, &waiting) && waiting.Reason.Code == reason.UnsupportedVolume {
		return waiting.Reason.Text() + "; " + waiting.Reason.Remedy()
	}
	return err.Error()
}

func (w *worker) volumesFailed(err error) {
	why := reason.Reason{Code: reason.FailedMount, Detail: err.Error()}
	var waiting *volume.NotReady
	if errors.As(err, &waiting) {
		why = waiting.Reason
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prepared = podplan.Preparation{Failure: &why}
}

// keepVolumesFresh starts a refresh of the Pod's volumes when one is due. Where it
// fails the Pod goes on with what it has.
func (w *worker) keepVolumesFresh(ctx context.Context, pod *v1.Pod, busy map[job]bool, wanted bool) {
	now := w.clock.Now()
	switch {
	case !wanted:
		w.refreshAt = time.Time{}
	case w.refreshAt.IsZero():
		w.refreshAt = now.Add(volumeRefresh)
	case !now.Before(w.refreshAt):
		w.refreshAt = now.Add(volumeRefresh)
		w.spawn(ctx, job{verb: refreshVolumes}, busy, func(ctx context.Context) error {
			_, err := w.volumes.Prepare(ctx, pod)
			return err
		})
	}
}

func (w *worker) currentMounts() map[string]volume.Mount {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.mounts)
}
