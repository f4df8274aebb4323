package control

import (
	"cmp"
	"container/heap"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/clock"
)

// placing is a Pod in the queue, with what decides whose turn it is.
type placing struct {
	types.NamespacedName
	uid      types.UID
	priority int32
	created  int64 // seconds
}

func placingOf(pod *v1.Pod) placing {
	return placing{
		NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
		uid:            pod.UID, priority: corev1.PodPriority(pod), created: pod.CreationTimestamp.Unix(),
	}
}

// compare is the order of the queue: the more important Pod first, then the
// older one, then by name.
func (p placing) compare(other placing) int {
	return cmp.Or(
		cmp.Compare(other.priority, p.priority),
		cmp.Compare(p.created, other.created),
		cmp.Compare(p.Namespace, other.Namespace),
		cmp.Compare(p.Name, other.Name),
	)
}

// byPriority keeps the queue in that order.
type byPriority struct{ items placings }

func (q *byPriority) Touch(placing)     {}
func (q *byPriority) Len() int          { return len(q.items) }
func (q *byPriority) Push(item placing) { heap.Push(&q.items, item) }

// Pop takes the Pod whose turn it is.
func (q *byPriority) Pop() placing {
	item := q.items[0]
	heap.Remove(&q.items, 0)
	return item
}

type placings []placing

func (p placings) Len() int           { return len(p) }
func (p placings) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p placings) Less(i, j int) bool { return p[i].compare(p[j]) < 0 }

// Push and Pop are what container/heap asks for.
func (p *placings) Push(item any) { *p = append(*p, item.(placing)) }

func (p *placings) Pop() any {
	last := len(*p) - 1
	item := (*p)[last]
	*p = (*p)[:last]
	return item
}

// newPlacingQueue is a queue in that order, with back-offs from 0.1 s to 10 s.
func newPlacingQueue(clock clock.WithTicker) workqueue.TypedRateLimitingInterface[placing] {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[placing]{
		Name: "placement", Clock: clock, Queue: &byPriority{},
	})
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[placing](100*time.Millisecond, 10*time.Second),
		workqueue.TypedRateLimitingQueueConfig[placing]{
			Name: "placement", Clock: clock,
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[placing]{
				Name: "placement", Clock: clock, Queue: queue,
			}),
		})
}
