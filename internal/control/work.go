package control

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// work lets some workers take items from the queue until ctx ends, and returns
// when the last has finished its item. An item that fails comes back after a
// back-off that grows; a conflict is no failure worth a report, it only means
// that the caches have not caught up with what was written.
func work[T comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[T], workers int, each func(context.Context, T) error) error {
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for {
				item, shutdown := queue.Get()
				if shutdown {
					return
				}
				finish(ctx, queue, item, each(ctx, item))
			}
		})
	}
	group.Wait()
	return nil
}

// finish gives an item back to the queue with what came of it.
func finish[T comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[T], item T, err error) {
	defer queue.Done(item)
	switch {
	case err == nil:
		queue.Forget(item)
		return
	case ctx.Err() != nil:
		return
	case !apierrors.IsConflict(err):
		klog.FromContext(ctx).Error(err, "Work failed and is tried again", "item", item)
	}
	queue.AddRateLimited(item)
}

// newQueue is a queue of one loop, with back-offs from 5 ms to 10 s.
func newQueue[T comparable](name string, clock clock.WithTicker) workqueue.TypedRateLimitingInterface[T] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[T](5*time.Millisecond, 10*time.Second),
		workqueue.TypedRateLimitingQueueConfig[T]{Name: name, Clock: clock})
}
