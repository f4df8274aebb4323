package control

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"muster.dev/muster/internal/placement"
)

// placementWrites go out side by side, so that one slow write does not hold up
// the rest. Decisions are made one after the other, in the queue's order.
const placementWrites = 4

// lookAgain is when a waiting Pod is decided on again though nothing happened
// that would let it fit, so that what is said on it stays true.
const lookAgain = 5 * time.Minute

// placementLoop binds Pods without a node to a node they fit on.
//
// A Pod that fits nowhere waits in waiting. It is put there before it is
// decided on, so that room made meanwhile is not missed, and leaves it when it
// is bound or gone.
type placementLoop struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	ledger *Ledger
	events record.EventRecorder
	clock  clock.PassiveClock
	queue  workqueue.TypedRateLimitingInterface[placing]

	mu      sync.Mutex
	waiting map[placing]bool
}

func setPlacement(_ context.Context, s *shared) (func(context.Context) error, error) {
	l := &placementLoop{
		client: s.client, ledger: s.ledger, clock: s.clock,
		pods:    s.informers.Core().V1().Pods().Lister(),
		events:  s.recorder(v1.DefaultSchedulerName),
		queue:   newPlacingQueue(s.clock),
		waiting: map[placing]bool{},
	}
	l.ledger.OnRoom(l.wake)
	_, err := s.informers.Core().V1().Pods().Informer().AddEventHandler(handle(l.podSet, l.podRemoved))
	if err != nil {
		return nil, fmt.Errorf("following Pods: %w", err)
	}
	return l.run, nil
}

func (l *placementLoop) run(ctx context.Context) error {
	if !l.ledger.WaitForSync(ctx) {
		return nil
	}
	stop := context.AfterFunc(ctx, l.queue.ShutDown)
	defer stop()
	var writes errgroup.Group
	writes.SetLimit(placementWrites)
	for {
		key, shutdown := l.queue.Get()
		if shutdown {
			return writes.Wait()
		}
		act, err := l.decide(key)
		writes.Go(func() error {
			if err == nil && act != nil {
				err = act(ctx)
			}
			finish(ctx, l.queue, key, err)
			return nil
		})
	}
}

// ours are the Pods this loop has to place: without a node, alive, not left to
// another scheduler. A Pod behind gates is not asked about until they are gone.
func ours(pod *v1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&
		pod.Spec.SchedulerName == v1.DefaultSchedulerName &&
		pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed
}

func (l *placementLoop) podSet(old, pod *v1.Pod) {
	if old != nil && old.UID != pod.UID {
		l.settled(placingOf(old))
	}
	switch {
	case !ours(pod):
		l.settled(placingOf(pod))
	case old == nil || old.UID != pod.UID || old.Generation != pod.Generation || !ours(old):
		l.queue.Add(placingOf(pod))
	}
}

func (l *placementLoop) podRemoved(pod *v1.Pod) { l.settled(placingOf(pod)) }

func (l *placementLoop) settled(pod placing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, pod)
	l.queue.Forget(pod)
}

func (l *placementLoop) waits(pod placing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[pod] = true
}

// wake puts those waiting Pods back into the queue that may fit now.
func (l *placementLoop) wake(nodes ...string) {
	l.mu.Lock()
	waiting := make([]placing, 0, len(l.waiting))
	for pod := range l.waiting {
		waiting = append(waiting, pod)
	}
	l.mu.Unlock()
	slices.SortFunc(waiting, placing.compare)
	for _, each := range waiting {
		pod, err := l.pods.Pods(each.Namespace).Get(each.Name)
		if err == nil && l.mayFit(pod, nodes) {
			l.queue.Add(each)
		}
	}
}

func (l *placementLoop) mayFit(pod *v1.Pod, nodes []string) bool {
	if len(nodes) == 0 || placement.LooksAround(pod) {
		return true
	}
	for _, node := range nodes {
		if !placement.ConfinedElsewhere(pod, node) && len(l.ledger.Fits(pod, node)) == 0 {
			return true
		}
	}
	return false
}

// decide decides on one Pod and says what is to be done about it; nil: nothing.
func (l *placementLoop) decide(key placing) (act func(context.Context) error, err error) {
	pod, err := l.pods.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && (pod.UID != key.uid || !ours(pod)) {
		l.settled(key)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Pod %s: %w", key, err)
	}
	l.waits(key)
	decision, ok := l.ledger.Place(pod)
	switch {
	case !ok:
		return nil, nil
	case decision.Placed():
		return func(ctx context.Context) error { return l.bind(ctx, pod, decision.Node) }, nil
	}
	l.queue.AddAfter(key, lookAgain)
	return func(ctx context.Context) error { return l.refuse(ctx, pod, decision.Message()) }, nil
}

// bind puts the Pod on the node. Where that fails, the room goes back: the Pod
// may have been bound all the same, which its own news will tell.
func (l *placementLoop) bind(ctx context.Context, pod *v1.Pod, node string) error {
	err := l.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	if err != nil {
		l.ledger.Release(pod.Namespace, pod.Name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("binding Pod %s/%s to %s: %w", pod.Namespace, pod.Name, node, err)
	}
	l.events.Eventf(pod, v1.EventTypeNormal, "Scheduled", "Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, node)
	klog.FromContext(ctx).V(1).Info("Placed Pod", "pod", klog.KObj(pod), "node", node)
	return nil
}

// refuse says on the Pod why it fits nowhere; once, as long as that stays the same.
func (l *placementLoop) refuse(ctx context.Context, pod *v1.Pod, message string) error {
	updated := pod.DeepCopy()
	changed := setPodCondition(&updated.Status, v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable,
		Message: message, ObservedGeneration: pod.Generation,
	}, l.clock.Now())
	if !changed {
		return nil
	}
	_, err := l.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("saying why Pod %s/%s waits: %w", pod.Namespace, pod.Name, err)
	}
	l.events.Event(pod, v1.EventTypeWarning, "FailedScheduling", message)
	return nil
}
