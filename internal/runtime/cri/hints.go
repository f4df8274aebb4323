package cri

import (
	"context"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/internal/runtime"
)

// hints holds what was announced and not yet taken: one event per Pod, so that a
// slow receiver costs no memory and never holds the runtime's stream up.
type hints struct {
	mu      sync.Mutex
	pending map[types.UID]runtime.Event
	wake    chan struct{} // holds one token while pending is not empty
}

func newHints() *hints {
	return &hints{pending: make(map[types.UID]runtime.Event), wake: make(chan struct{}, 1)}
}

// add never blocks; a newer hint takes the place of an older one for its Pod.
func (h *hints) add(event runtime.Event) {
	h.mu.Lock()
	h.pending[event.PodUID] = event
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *hints) take() map[types.UID]runtime.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.pending
	h.pending = make(map[types.UID]runtime.Event)
	return taken
}

// deliver hands the hints to out until ctx ends.
func (h *hints) deliver(ctx context.Context, out chan<- runtime.Event) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		for event := range maps.Values(h.take()) {
			select {
			case <-ctx.Done():
				return
			case out <- event:
			}
		}
	}
}
