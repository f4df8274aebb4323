package agent

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/internal/agent/volume"
	"muster.dev/muster/internal/podplan"
	"muster.dev/muster/internal/reason"
	"muster.dev/muster/internal/runtime"
)

const (
	rereadFirst = 5 * time.Millisecond   // after an event whose state is not visible yet
	rereadLast  = 500 * time.Millisecond // … growing to this, then the event was old news
	relistFirst = time.Second            // without any event, after a change
	relistLast  = time.Minute            // … growing to this while nothing changes
	failedFirst = time.Second            // after a read that failed
	failedLast  = 15 * time.Second       // … growing to this while reads fail
)

// worker is the one owner of one Pod on this node. Its loop observes, asks
// podplan.Decide and starts the actions as jobs; everything else only tells it
// news and wakes it.
type worker struct {
	*shared
	uid   types.UID
	log   *slog.Logger
	wake  chan struct{} // holds one token: there is news
	jobs  jobs
	stops stops

	// The loop's own.
	journal   *journal
	asked     map[string]int  // by container: the attempt an agent before this one was last starting
	before    runtime.Pod     // the last observation
	reasons   []reason.Reason // of the last decision
	saved     *v1.Pod         // what stands in the Pod's directory
	relist    time.Duration
	failed    time.Duration // zero: the last observation succeeded
	reread    time.Duration // zero: no event is outstanding
	publishAt time.Time     // when a changed status must be written; zero: it need not
	refreshAt time.Time     // when the volumes are next brought up to date

	mu        sync.Mutex    // guards what follows
	pod       *v1.Pod       // the newest known
	removed   bool          // the API says it is gone
	deleted   bool          // this worker deleted the API object
	released  bool          // its volumes are gone; the object stays
	finished  bool          // nothing is left of the Pod
	announced bool          // a runtime event came since the last observation
	shown     *v1.PodStatus // the last status decided upon; never changed
	progress
}

// progress is what jobs found out and the next observation takes in.
type progress struct {
	prepared       podplan.Preparation
	mounts         map[string]volume.Mount
	images         map[string]podplan.ImageState   // by container
	startFailures  map[string]podplan.StartFailure // by container
	sandboxFailure *podplan.StartFailure
	stopped        map[string]bool // sandboxes that StopSandbox has ended
}

func newWorker(s *shared, pod *v1.Pod, removed bool) *worker {
	return &worker{
		shared: s,
		uid:    pod.UID,
		log:    s.log.With("pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID),
		wake:   make(chan struct{}, 1),
		jobs:   newJobs(),
		relist: relistFirst,
		pod:    pod, removed: removed,
		progress: progress{
			images:        map[string]podplan.ImageState{},
			startFailures: map[string]podplan.StartFailure{},
			stopped:       map[string]bool{},
		},
	}
}

// run is the worker's life; it returns when nothing is left of the Pod or ctx
// ends, and its jobs with it.
func (w *worker) run(ctx context.Context) {
	defer w.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for !w.isFinished() {
		wait := w.step(ctx)
		timer := w.clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-w.wake:
		case <-timer.C():
		}
		timer.Stop()
	}
}

func (w *worker) close() {
	w.jobs.wait()
	w.probes.Remove(w.uid)
	if w.journal == nil {
		return
	}
	if err := w.journal.close(); err != nil {
		w.log.Error("Closing the Pod's journal failed", "err", err)
	}
}

// step is one wake: observe, decide, act. It returns how long to wait for news.
func (w *worker) step(ctx context.Context) time.Duration {
	busy := w.jobs.running() // before observing: what ends meanwhile has news of its own
	pod, removed := w.current()
	if err := w.open(pod); err != nil {
		w.log.Error("Opening the Pod's journal failed, will retry", "err", err)
		return w.failing()
	}
	seen, err := w.observe(ctx, pod, removed)
	if err != nil {
		if ctx.Err() == nil {
			w.log.Warn("Observing the Pod failed, will retry", "err", err)
		}
		return w.failing()
	}
	w.failed = 0
	now := w.clock.Now()
	decision := podplan.Decide(pod, seen, now)
	w.tellReasons(decision.Reasons)
	written := w.publish(ctx, pod, seen, underWay(decision, busy), now)
	w.act(ctx, pod, seen, decision, busy, written)
	return w.patience(decision.Next, now)
}

// tellReasons logs why the Pod is not further than it is, when that changes.
func (w *worker) tellReasons(reasons []reason.Reason) {
	if !slices.Equal(reasons, w.reasons) {
		w.log.Debug("Why the Pod is not further", "reasons", reasons)
	}
	w.reasons = reasons
}

// failing is how long to wait after a failure to observe, longer each time. The
// runtime says when it is back.
func (w *worker) failing() time.Duration {
	w.failed = min(max(2*w.failed, failedFirst), failedLast)
	return w.failed
}

// patience is how long to sleep unless woken.
func (w *worker) patience(next, now time.Time) time.Duration {
	wait := w.relist
	if w.reread > 0 {
		wait = min(wait, w.reread)
	}
	for _, due := range []time.Time{next, w.jobs.nextRetry(now), w.refreshAt, w.publishAt} {
		if !due.IsZero() {
			wait = min(wait, max(due.Sub(now), time.Millisecond))
		}
	}
	return wait
}

// notice compares an observation with the one before, to know how soon to look
// again: an event may come before the state it announces, or not at all.
func (w *worker) notice(found runtime.Pod) {
	w.mu.Lock()
	announced := w.announced
	w.announced = false
	w.mu.Unlock()
	changed := !reflect.DeepEqual(found, w.before)
	w.before = found
	switch {
	case changed:
		w.relist, w.reread = relistFirst, 0
	case announced:
		w.reread = rereadFirst
	case w.reread > 0:
		if w.reread *= 2; w.reread > rereadLast {
			w.reread = 0
		}
	default:
		w.relist = min(2*w.relist, relistLast)
	}
}

// poke wakes the worker; it never blocks.
func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// event tells the worker that the runtime announced a change.
func (w *worker) event() {
	w.mu.Lock()
	w.announced = true
	w.mu.Unlock()
	w.poke()
}

// update tells the worker of a newer Pod object.
func (w *worker) update(pod *v1.Pod) {
	w.mu.Lock()
	newer := newerPod(pod, w.pod)
	if newer {
		w.pod = pod
	}
	w.mu.Unlock()
	if newer {
		w.poke()
	}
}

// remove tells the worker that the API object is gone; last is its last state.
func (w *worker) remove(last *v1.Pod) {
	w.mu.Lock()
	w.removed = true
	if newerPod(last, w.pod) {
		w.pod = last
	}
	w.mu.Unlock()
	w.poke()
}

func (w *worker) current() (pod *v1.Pod, removed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod, w.removed
}

func (w *worker) isFinished() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.finished
}
