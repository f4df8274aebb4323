package agent

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/podplan"
	"muster.dev/muster/internal/runtime"
)

// leastGrace is what a container gets to react to its stop signal, however long
// its preStop hook took.
const leastGrace = 2 * time.Second

// endContainer stops one container: its preStop hook and its stop signal share
// the grace period.
func (w *worker) endContainer(ctx context.Context, pod *v1.Pod, seen podplan.Observed, a podplan.Action, hook bool) error {
	name := containerOf(seen, a)
	message := a.Message
	if message == "" {
		message = "Stopping container " + name
	}
	w.events.Container(pod, name, v1.EventTypeNormal, "Killing", message)
	grace := a.Grace
	if container := findContainer(pod, name); hook && grace > 0 && container != nil &&
		container.Lifecycle != nil && container.Lifecycle.PreStop != nil {
		began := w.clock.Now()
		w.preStop(ctx, pod, container, seen, a)
		grace = max(grace-w.clock.Since(began), leastGrace)
	}
	return w.runtime.StopContainer(ctx, a.ID, grace)
}

func containerOf(seen podplan.Observed, a podplan.Action) string {
	for _, attempt := range seen.Attempts {
		if attempt.ID == a.ID {
			return attempt.Container
		}
	}
	return a.Container
}

// stopSlack is how long after its end a stop still counts as under way.
const stopSlack = 10 * time.Second

// stops remembers by when each container was told to have ended.
type stops struct {
	mu  sync.Mutex // guards end
	end map[string]time.Time
}

// claim takes on a stop that ends by end; ok is false when one is under way that
// ends no later (give or take a second), and first is false when an earlier stop
// has already run the container's hook.
func (s *stops) claim(id string, end, now time.Time) (first, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, stopping := s.end[id]
	if stopping && end.After(before.Add(-time.Second)) && now.Before(before.Add(stopSlack)) {
		return false, false
	}
	if s.end == nil {
		s.end = map[string]time.Time{}
	}
	s.end[id] = end
	return !stopping, true
}

// keep forgets the stops of containers that are no more.
func (s *stops) keep(held []runtime.Container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.end, func(id string, _ time.Time) bool {
		return !slices.ContainsFunc(held, func(c runtime.Container) bool { return c.ID == id })
	})
}

// forget lets a stop that failed be tried again.
func (s *stops) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.end, id)
}
