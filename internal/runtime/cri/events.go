package cri

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"muster.dev/muster/internal/runtime"
)

// source reads one stream of events into h until it breaks or ctx ends. It calls
// connected when the subscription stands; repetition does no harm.
type source func(ctx context.Context, h *hints, connected func()) error

const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second
	// relist is how often everything may have changed when the runtime has no
	// events at all.
	relist = time.Second
)

// errNoEvents says that a runtime has the call for events but does not send any.
var errNoEvents = errors.New("the runtime sends no events")

// Events announces changes until ctx ends, then closes the channel. Sources are
// tried in order: containerd's event service; CRI's own events; and where there
// is neither, a hint that anything may have changed every second. containerd's
// service comes first because containerd 1.7 gives each CRI event to one of its
// listeners only, which may be the dead connection of a former agent.
func (c *Client) Events(ctx context.Context) <-chan runtime.Event {
	out := make(chan runtime.Event)
	h := newHints()
	var group sync.WaitGroup
	group.Go(func() { c.follow(ctx, h) })
	group.Go(func() { h.deliver(ctx, out) })
	go func() {
		group.Wait()
		close(out)
	}()
	return out
}

// follow keeps one source connected, beginning again with the first one after
// every break, since the runtime may have been replaced by another version.
func (c *Client) follow(ctx context.Context, h *hints) {
	wait := firstRetry
	for ctx.Err() == nil {
		var worked atomic.Bool
		err := c.followOnce(ctx, h, func() {
			worked.Store(true)
			h.add(runtime.Event{At: time.Now()})
		})
		if ctx.Err() != nil {
			return
		}
		if worked.Load() {
			wait = firstRetry
		}
		c.log.Warn("runtime events interrupted", "error", err, "retry", wait)
		if !pause(ctx, wait) {
			return
		}
		wait = min(2*wait, lastRetry)
	}
}

func (c *Client) followOnce(ctx context.Context, h *hints, connected func()) error {
	for _, read := range []source{c.readContainerdEvents, c.readCRIEvents} {
		err := read(ctx, h, connected)
		if !unsupported(err) {
			return err
		}
	}
	c.log.Warn("this runtime has no events: reading everything again and again", "every", relist)
	connected()
	for {
		if !pause(ctx, relist) {
			return ctx.Err()
		}
		if _, err := c.Info(ctx); err != nil {
			return err // looking for events again, should it come back as another
		}
		h.add(runtime.Event{At: time.Now()})
	}
}

func unsupported(err error) bool {
	if errors.Is(err, errNoEvents) {
		return true
	}
	var answered interface{ GRPCStatus() *status.Status }
	return errors.As(err, &answered) && answered.GRPCStatus().Code() == codes.Unimplemented
}

// pause waits; it is false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
