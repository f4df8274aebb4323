package agent

import (
	"context"
	"maps"
	"sync"
	"time"

	"muster.dev/muster/internal/podplan"
)

// job names one piece of work of a Pod that runs beside its worker's loop.
type job struct {
	verb podplan.Verb
	what string // container name or runtime ID
}

// Jobs that are the worker's own, not podplan's.
const (
	writeStatus    podplan.Verb = "WriteStatus"
	refreshVolumes podplan.Verb = "RefreshVolumes"
)

const (
	retryFirst = 500 * time.Millisecond
	retryLast  = 30 * time.Second
)

// jobs runs a Pod's jobs, each at most once at a time, and remembers when one
// that failed may be tried again.
type jobs struct {
	mu      *sync.Mutex // guards what follows
	going   map[job]bool
	retries map[job]delay
	group   *sync.WaitGroup
}

type delay struct {
	at   time.Time
	wait time.Duration
}

func newJobs() jobs {
	return jobs{mu: &sync.Mutex{}, going: map[job]bool{}, retries: map[job]delay{}, group: &sync.WaitGroup{}}
}

// running is what is going on now.
func (j jobs) running() map[job]bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.going)
}

// start runs work unless the same job is going on; then is called after the job
// no longer counts as going on.
func (j jobs) start(id job, work func(), then func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.going[id] {
		return
	}
	j.going[id] = true
	j.group.Go(func() {
		work()
		j.mu.Lock()
		delete(j.going, id)
		j.mu.Unlock()
		then()
	})
}

// failed puts off the next try of a job, longer each time.
func (j jobs) failed(id job, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	wait := min(max(2*j.retries[id].wait, retryFirst), retryLast)
	j.retries[id] = delay{at: now.Add(wait), wait: wait}
}

// succeeded forgets a job's failures.
func (j jobs) succeeded(id job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.retries, id)
}

// due says whether a job may be tried now.
func (j jobs) due(id job, now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !now.Before(j.retries[id].at)
}

// nextRetry is when the first put-off job may be tried again; zero for none.
func (j jobs) nextRetry(now time.Time) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	var next time.Time
	for _, r := range j.retries {
		if r.at.After(now) && (next.IsZero() || r.at.Before(next)) {
			next = r.at
		}
	}
	return next
}

func (j jobs) wait() { j.group.Wait() }

// stopPatience is how long a change of the runtime under way may still take when
// the agent stops.
const stopPatience = 10 * time.Second

// outlive is a context for a change that had better not be cut off half way: it
// ends after limit, or some time after ctx does.
func outlive(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	long, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(stopPatience, cancel) })
	return long, func() { stop(); cancel() }
}
