package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"muster.dev/muster/internal/runtime"
)

// images fetches images for all Pods of the node: each one once at a time,
// whoever asks, and only so many at once.
type images struct {
	runtime runtime.Runtime
	clock   clock.Clock
	slots   chan struct{}
	ctx     context.Context // ends every pull when the agent stops
	group   sync.WaitGroup

	mu    sync.Mutex // guards what follows
	pulls map[pullKey]*pull
}

// pullKey is what makes two wishes the same pull: the image and who asks the
// registry for it.
type pullKey struct{ image, user, password, server string }

// pull is one fetch; its results are there once done is closed.
type pull struct {
	done   chan struct{}
	err    error
	took   time.Duration // fetching
	waited time.Duration // fetching and waiting for a slot
	bytes  int64
}

func newImages(ctx context.Context, rt runtime.Runtime, clk clock.Clock, parallel int) *images {
	return &images{runtime: rt, clock: clk, slots: make(chan struct{}, parallel), ctx: ctx, pulls: map[pullKey]*pull{}}
}

// fetch gets an image, joining a pull of the same image under way. The pull goes
// on when ctx ends: another Pod may wait for it.
func (i *images) fetch(ctx context.Context, image string, auth *cri.AuthConfig, sandbox *cri.PodSandboxConfig) (*pull, error) {
	p := i.join(image, auth, sandbox)
	select {
	case <-p.done:
		return p, p.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (i *images) join(image string, auth *cri.AuthConfig, sandbox *cri.PodSandboxConfig) *pull {
	key := pullKey{image: image, user: auth.GetUsername(), password: auth.GetPassword(), server: auth.GetServerAddress()}
	i.mu.Lock()
	defer i.mu.Unlock()
	if p := i.pulls[key]; p != nil {
		return p
	}
	p := &pull{done: make(chan struct{})}
	i.pulls[key] = p
	i.group.Go(func() {
		i.run(p, image, auth, sandbox)
		i.mu.Lock()
		delete(i.pulls, key)
		i.mu.Unlock()
		close(p.done)
	})
	return p
}

func (i *images) run(p *pull, image string, auth *cri.AuthConfig, sandbox *cri.PodSandboxConfig) {
	asked := i.clock.Now()
	select {
	case i.slots <- struct{}{}:
		defer func() { <-i.slots }()
	case <-i.ctx.Done():
		p.err = context.Cause(i.ctx)
		return
	}
	began := i.clock.Now()
	_, p.err = i.runtime.PullImage(i.ctx, image, auth, sandbox)
	p.took, p.waited = i.clock.Since(began), i.clock.Since(asked)
	if p.err != nil {
		return
	}
	got, err := i.runtime.Image(i.ctx, image)
	switch {
	case err != nil:
		p.err = fmt.Errorf("looking up image %s after its pull: %w", image, err)
	case got == nil:
		p.err = fmt.Errorf("image %s is not there after its pull", image)
	default:
		p.bytes = got.Bytes
	}
}

// close waits for pulls to end; the context given to newImages must have ended.
func (i *images) close() { i.group.Wait() }
