package cri

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
)

const (
	// firstLook and lastLook bound the time between two looks at a state that has
	// not settled. It grows slowly: an exit usually shows some 10 ms after the
	// task's deletion, and a Pod's next init step waits for it.
	firstLook = 2 * time.Millisecond
	lastLook  = 100 * time.Millisecond
	// patience is how long a hint waits at most: an OOM kill in particular may
	// concern a container whose state never says so.
	patience = 2 * time.Second
)

// shows says whether CRI shows what an event announced.
type shows func(context.Context, *Client) bool

// settler holds hints back until CRI shows what they announce, so that who reads
// upon a hint need not read twice.
type settler struct {
	client *Client
	hints  *hints

	mu      sync.Mutex
	waiting map[string]settling // by container ID

	wake   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
}

type settling struct {
	event runtime.Event
	shows []shows
	until time.Time
}

func newSettler(ctx context.Context, c *Client, h *hints) *settler {
	ctx, cancel := context.WithCancel(ctx)
	s := &settler{client: c, hints: h, waiting: make(map[string]settling), wake: make(chan struct{}, 1), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.run(ctx)
	}()
	return s
}

// stop ends the settler; what still waits is announced by the next connection.
func (s *settler) stop() {
	s.cancel()
	<-s.done
}

// add announces event once shown. An OOM kill and the exit it causes wait together.
func (s *settler) add(event runtime.Event, shown shows) {
	s.mu.Lock()
	old := s.waiting[event.ContainerID]
	s.waiting[event.ContainerID] = settling{event: event, shows: append(old.shows, shown), until: time.Now().Add(patience)}
	s.mu.Unlock()
	s.lookNow()
}

// lookNow asks for a look at once, and frequent ones after it.
func (s *settler) lookNow() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *settler) run(ctx context.Context) {
	var again <-chan time.Time // never, while nothing waits
	wait := firstLook
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
			wait = firstLook
		case <-again:
			wait = min(wait*5/4, lastLook)
		}
		again = nil
		if s.look(ctx) > 0 {
			again = time.After(wait)
		}
	}
}

// look announces what has settled and returns how many have not.
func (s *settler) look(ctx context.Context) int {
	s.mu.Lock()
	waiting := maps.Clone(s.waiting)
	s.mu.Unlock()
	for id, one := range waiting {
		if !one.settled(ctx, s.client) && time.Now().Before(one.until) {
			continue
		}
		s.hints.add(one.event)
		s.mu.Lock()
		if len(s.waiting[id].shows) == len(one.shows) {
			delete(s.waiting, id)
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

func (s settling) settled(ctx context.Context, c *Client) bool {
	for _, shown := range s.shows {
		if !shown(ctx, c) {
			return false
		}
	}
	return true
}

// ended waits until CRI shows a container as exited or a sandbox as not ready.
func ended(who owner) shows {
	return func(ctx context.Context, c *Client) bool {
		if who.sandbox {
			status, err := c.sandboxStatus(ctx, who.id)
			return errors.Is(err, runtime.ErrNotFound) || err == nil && status.State == cri.PodSandboxState_SANDBOX_NOTREADY
		}
		status, err := c.containerStatus(ctx, who.id)
		return errors.Is(err, runtime.ErrNotFound) || err == nil && status.State == cri.ContainerState_CONTAINER_EXITED
	}
}

// saysOOM waits until CRI gives the OOM kill as the reason.
func saysOOM(who owner) shows {
	return func(ctx context.Context, c *Client) bool {
		status, err := c.containerStatus(ctx, who.id)
		return errors.Is(err, runtime.ErrNotFound) || err == nil && status.Reason == "OOMKilled"
	}
}
