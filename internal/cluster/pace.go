package cluster

import (
	"cmp"
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// together is how many writes of one burst are under way at once: enough to keep
// an API server busy, few enough not to starve its other clients.
const together = 32

// pace is how fast one set's writes go: all at once while they succeed; after an
// error one, then two, four, eight, until a whole burst has succeeded again.
type pace struct {
	slow bool
}

// burst does n things, each at most once. After an error it goes on carefully, and
// stops at the next, so that a write which always fails is not tried a thousand
// times. It returns the first error, whatever succeeded after it.
func (p *pace) burst(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	if n == 0 {
		return nil // nothing learnt
	}
	size := n
	if p.slow {
		size = 1
	}
	var first error
	for done := 0; done < n; {
		finished, err := inParallel(ctx, done, min(size, n-done), do)
		done += finished
		if err == nil {
			size *= 2
			continue
		}
		first = cmp.Or(first, err)
		if p.slow || ctx.Err() != nil {
			break
		}
		p.slow, size = true, 1
	}
	p.slow = first != nil
	return first
}

// inParallel does the things from first on, and starts no more after an error. It
// returns how many it started, which have all ended, and the first error.
func inParallel(ctx context.Context, first, n int, do func(context.Context, int) error) (started int, err error) {
	var group errgroup.Group
	group.SetLimit(min(together, max(n, 1)))
	var mu sync.Mutex
	var failed error
	stopped := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return failed != nil || ctx.Err() != nil
	}
	for ; started < n && !stopped(); started++ {
		i := first + started
		group.Go(func() error {
			if err := do(ctx, i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if failed == nil {
					failed = err
				}
			}
			return nil
		})
	}
	_ = group.Wait() // every error is in failed
	if failed == nil {
		failed = ctx.Err()
	}
	return started, failed
}
