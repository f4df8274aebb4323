package fake

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/internal/runtime"
)

// backlog is how many hints wait for a slow receiver before they become one that
// says anything may have changed.
const backlog = 16

type subscriber struct {
	out chan runtime.Event
}

// Events announces changes until ctx ends, then closes the channel. It needs no
// goroutine: the channel is buffered, and whoever finds it full makes room.
func (r *Runtime) Events(ctx context.Context) <-chan runtime.Event {
	s := &subscriber{out: make(chan runtime.Event, backlog)}
	r.mu.Lock()
	r.subscribers[s] = struct{}{}
	if !r.down {
		s.send(runtime.Event{At: r.clock.Now()})
	}
	r.mu.Unlock()
	context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.subscribers, s)
		close(s.out)
	})
	return s.out
}

// send never blocks: it is called under the lock, so nobody else fills the room
// it makes.
func (s *subscriber) send(event runtime.Event) {
	select {
	case s.out <- event:
		return
	default:
	}
	select {
	case <-s.out:
	default: // the receiver was quicker
	}
	s.out <- runtime.Event{At: event.At}
}

func (r *Runtime) announceLocked(uid types.UID, id string) {
	if r.down {
		return
	}
	event := runtime.Event{PodUID: uid, ContainerID: id, At: r.clock.Now()}
	for s := range r.subscribers {
		s.send(event)
	}
}
