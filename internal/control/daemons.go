package control

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"muster.dev/muster/internal/cluster"
)

const (
	// daemonWorkers work on different sets side by side; one set has one at a time.
	daemonWorkers = 4
	// settle is how long news of Pods and nodes is gathered before a set is decided
	// on again, so that a burst of it costs one decision and one status.
	settle = 20 * time.Millisecond
)

// daemonLoop keeps every DaemonSet covered: one plan at a time per set.
type daemonLoop struct {
	cluster *cluster.Cluster
	clock   clock.PassiveClock
	queue   workqueue.TypedRateLimitingInterface[types.UID]
}

func setDaemons(_ context.Context, s *shared) (func(context.Context) error, error) {
	l := &daemonLoop{clock: s.clock, queue: newDaemonQueue(s.clock)}
	options := cluster.Options{
		Client: s.client, Informers: s.informers, Clock: s.clock,
		Events: s.recorder("daemonset-controller"), Room: s.ledger, Wake: l.wake,
	}
	var err error
	l.cluster, err = cluster.New(options)
	return func(ctx context.Context) error {
		if !s.ledger.WaitForSync(ctx) || !l.cluster.WaitForSync(ctx) {
			return nil
		}
		return work(ctx, l.queue, daemonWorkers, l.keep)
	}, err
}

func newDaemonQueue(clock clock.WithTicker) workqueue.TypedRateLimitingInterface[types.UID] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](50*time.Millisecond, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[types.UID]{Name: "daemonset", Clock: clock},
	)
}

// wake puts a set in the queue: at once when the set itself has changed, else when
// more news has had time to gather.
func (l *daemonLoop) wake(set types.UID, urgent bool) {
	if urgent {
		l.queue.Add(set)
		return
	}
	l.queue.AddAfter(set, settle)
}

// keep decides on one set, does what was decided, and comes back in time.
func (l *daemonLoop) keep(ctx context.Context, set types.UID) error {
	plan, ok := l.cluster.Decide(set)
	if !ok {
		return nil
	}
	if plan.Acts() {
		klog.FromContext(ctx).V(2).Info("Carrying out a plan", "daemonset", klog.KObj(plan.Set),
			"create", len(plan.Create), "delete", len(plan.Delete), "reasons", plan.Reasons)
	}
	if err := l.cluster.Apply(ctx, plan); err != nil {
		return err
	}
	if !plan.Next.IsZero() {
		l.queue.AddAfter(set, plan.Next.Sub(l.clock.Now()))
	}
	return nil
}
