package agent

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/podplan"
)

// act starts what was decided. Actions that were going on when the observation
// began are left alone: their end has not been seen yet, and wakes the worker.
// written says that the API has acknowledged the present status.
func (w *worker) act(ctx context.Context, pod *v1.Pod, seen podplan.Observed, d podplan.Decision, busy map[job]bool, written bool) {
	for _, action := range d.Actions {
		if action.Verb != podplan.Release {
			w.do(ctx, pod, seen, action, busy)
		}
	}
	if d.Terminal && written && quiet(busy) { // the last status comes first
		w.do(ctx, pod, seen, podplan.Action{Verb: podplan.Release}, busy)
	}
	w.keepVolumesFresh(ctx, pod, busy, seen.Volumes.Ready && !d.Terminal && seen.Terminating == nil)
}

func (w *worker) do(ctx context.Context, pod *v1.Pod, seen podplan.Observed, a podplan.Action, busy map[job]bool) {
	id := job{verb: a.Verb, what: a.ID}
	if a.Container != "" && (a.Verb == podplan.StartContainer || a.Verb == podplan.PullImage) {
		id.what = a.Container
	}
	switch a.Verb {
	case podplan.PrepareVolumes:
		w.spawn(ctx, id, busy, func(ctx context.Context) error { return w.prepareVolumes(ctx, pod) })
	case podplan.RunSandbox:
		w.startSandbox(ctx, id, busy, pod, a)
	case podplan.PullImage:
		w.spawn(ctx, id, busy, func(ctx context.Context) error { return w.pullImage(ctx, pod, a) })
	case podplan.StartContainer:
		w.startRecorded(ctx, id, busy, pod, seen, a)
	case podplan.StopContainer:
		w.stopContainer(ctx, pod, seen, a, busy)
	case podplan.RemoveContainer:
		w.spawn(ctx, id, busy, func(ctx context.Context) error { return w.removeContainer(ctx, pod, seen, a) })
	case podplan.StopSandbox:
		w.spawn(ctx, id, busy, func(ctx context.Context) error { return w.stopSandbox(ctx, a.ID) })
	case podplan.RemoveSandbox:
		w.spawn(ctx, id, busy, func(ctx context.Context) error { return w.removeSandbox(ctx, pod, seen, a) })
	case podplan.Release:
		if w.owesRelease(pod, seen) {
			w.spawn(ctx, id, busy, func(ctx context.Context) error { return w.release(ctx, pod, seen) })
		}
	default:
		panic("podplan decided on a verb the agent does not know: " + string(a.Verb))
	}
}

// spawn runs a job beside the loop and wakes it at the end. A job that fails is
// put off; one that was going on when the observation began is not run again.
func (w *worker) spawn(ctx context.Context, id job, busy map[job]bool, work func(context.Context) error) {
	w.spawnAs(ctx, id, id, busy, work)
}

// spawnAs is spawn for a job whose failures put off others too: all of one lane.
func (w *worker) spawnAs(ctx context.Context, id, lane job, busy map[job]bool, work func(context.Context) error) {
	if busy[id] || !w.jobs.due(lane, w.clock.Now()) {
		return
	}
	w.jobs.start(id, func() {
		began := w.clock.Now()
		if err := work(ctx); err != nil {
			w.jobs.failed(lane, w.clock.Now())
			if ctx.Err() == nil {
				w.log.Warn("A step of the Pod failed, will retry", "step", id.verb, "of", id.what, "took", w.clock.Since(began), "err", err)
			}
			return
		}
		w.jobs.succeeded(lane)
		w.log.Debug("A step of the Pod is done", "step", id.verb, "of", id.what, "took", w.clock.Since(began))
	}, w.poke)
}

// stopContainer ends a container. A second stop with a clearly earlier end may
// overtake the first: a force deletion does not wait for the old grace period.
func (w *worker) stopContainer(ctx context.Context, pod *v1.Pod, seen podplan.Observed, a podplan.Action, busy map[job]bool) {
	now := w.clock.Now()
	lane := job{verb: a.Verb, what: a.ID}
	if !w.jobs.due(lane, now) {
		return
	}
	end := now.Add(a.Grace)
	first, ok := w.stops.claim(a.ID, end, now)
	if !ok {
		return
	}
	id := job{verb: a.Verb, what: a.ID + " by " + end.UTC().Format(time.RFC3339Nano)}
	w.spawnAs(ctx, id, lane, busy, func(ctx context.Context) error {
		err := w.endContainer(ctx, pod, seen, a, first)
		if err != nil {
			w.stops.forget(a.ID)
		}
		return err
	})
}

// quiet says that nothing is under way that touches the Pod's containers, files or
// status. A pull is nobody's but the image's.
func quiet(busy map[job]bool) bool {
	for id := range busy {
		if id.verb != podplan.PullImage {
			return false
		}
	}
	return true
}
