package control

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"muster.dev/muster/internal/placement"
	"muster.dev/muster/internal/reason"
)

// reservation is how long room stays held for a Pod that was decided but is
// never seen on its node: longer than any write or news of it takes.
const reservation = 30 * time.Second

// Ledger is the one account of who holds room on which node, shared by all
// loops that put Pods on nodes, so that two decisions never spend the same room.
// It follows the shared caches by itself. Safe for concurrent use.
type Ledger struct {
	clock    clock.WithTicker
	synced   []cache.DoneChecker
	watchers []func(nodes ...string)
	// assumed tells run of a reservation.
	assumed chan struct{}

	mu     sync.Mutex
	ledger *placement.Ledger
}

// NewLedger is a ledger that follows the nodes, Pods and namespaces of the
// shared caches once these start.
func NewLedger(factory informers.SharedInformerFactory, clock clock.WithTicker) (*Ledger, error) {
	l := &Ledger{clock: clock, ledger: placement.NewLedger(), assumed: make(chan struct{}, 1)}
	core := factory.Core().V1()
	for _, follow := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{core.Nodes().Informer(), handle(l.setNode, l.removeNode)},
		{core.Pods().Informer(), handle(l.setPod, l.removePod)},
		{core.Namespaces().Informer(), handle(l.setNamespace, l.removeNamespace)},
	} {
		registration, err := follow.informer.AddEventHandler(follow.handler)
		if err != nil {
			return nil, fmt.Errorf("following the caches for the ledger: %w", err)
		}
		l.synced = append(l.synced, registration.HasSyncedChecker())
	}
	return l, nil
}

// OnRoom calls wake whenever Pods that fitted nowhere may fit now, with the
// nodes this is about; none means any. It is called after the ledger knows, on
// the caches' own goroutines: it must not block. To be set before these start.
func (l *Ledger) OnRoom(wake func(nodes ...string)) { l.watchers = append(l.watchers, wake) }

// Fits says every reason why the Pod does not fit on the node; none: it fits.
func (l *Ledger) Fits(pod *v1.Pod, node string) []reason.Reason {
	l.mu.Lock()
	defer l.mu.Unlock()
	return placement.Fits(pod, l.ledger, node)
}

// Reserve holds room for the Pod on the node, if it fits there; otherwise it
// says why not. What is reserved is given back by Release, or by itself when
// the Pod is seen on a node, has ended, or was not seen for half a minute.
func (l *Ledger) Reserve(pod *v1.Pod, node string) []reason.Reason {
	l.mu.Lock()
	defer l.mu.Unlock()
	reasons := placement.Fits(pod, l.ledger, node)
	if len(reasons) == 0 {
		l.assumeLocked(pod, node)
	}
	return reasons
}

// Place decides where the Pod goes and holds room for it there. ok is false
// where this was decided before and is only not seen yet.
func (l *Ledger) Place(pod *v1.Pod) (decision placement.Decision, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ledger.Assumed(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}) {
		return placement.Decision{}, false
	}
	decision = placement.Decide(pod, l.ledger)
	if decision.Placed() {
		l.assumeLocked(pod, decision.Node)
	}
	return decision, true
}

// Release gives back what is held for a Pod that did not come to its node.
func (l *Ledger) Release(namespace, name string) {
	l.mu.Lock()
	node, freed := l.ledger.Forget(types.NamespacedName{Namespace: namespace, Name: name})
	l.mu.Unlock()
	if freed {
		l.wake(node)
	}
}

func (l *Ledger) assumeLocked(pod *v1.Pod, node string) {
	l.ledger.Assume(pod, node, l.clock.Now().Add(reservation))
	select {
	case l.assumed <- struct{}{}:
	default: // run is told already
	}
}

// run gives back what was reserved and never seen, when its time has come.
func (l *Ledger) run(ctx context.Context) error {
	for {
		l.mu.Lock()
		freed, next := l.ledger.Expire(l.clock.Now())
		l.mu.Unlock()
		if len(freed) > 0 {
			klog.FromContext(ctx).Info("Gave back room held for Pods that were never seen", "nodes", freed)
			l.wake(freed...)
		}
		if !l.untilExpiry(ctx, next) {
			return nil
		}
	}
}

// untilExpiry waits for the time given or, where there is none, for the next
// reservation; false when ctx ends first.
func (l *Ledger) untilExpiry(ctx context.Context, next time.Time) bool {
	if next.IsZero() {
		select {
		case <-ctx.Done():
			return false
		case <-l.assumed:
			return true
		}
	}
	timer := l.clock.NewTimer(next.Sub(l.clock.Now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// WaitForSync waits until the ledger knows all that the caches held when they
// were first filled; false when ctx ends first. No decision may be made before.
func (l *Ledger) WaitForSync(ctx context.Context) bool {
	return cache.WaitFor(ctx, "the ledger", l.synced...)
}

func (l *Ledger) wake(nodes ...string) {
	for _, watcher := range l.watchers {
		watcher(nodes...)
	}
}

func (l *Ledger) do(change func(*placement.Ledger)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l.ledger)
}

func (l *Ledger) setNode(old, node *v1.Node) {
	l.do(func(ledger *placement.Ledger) { ledger.SetNode(node) })
	switch {
	case old == nil:
		l.wake() // what waiting Pods are told counts the nodes
	case placement.MakesRoom(old, node):
		l.wake(node.Name)
	}
}

func (l *Ledger) removeNode(node *v1.Node) {
	l.do(func(ledger *placement.Ledger) { ledger.RemoveNode(node.Name) })
	l.wake()
}

func (l *Ledger) setPod(old, pod *v1.Pod) {
	l.do(func(ledger *placement.Ledger) { ledger.SetPod(pod) })
	if placement.ChangesRoom(old, pod) {
		l.wake(pod.Spec.NodeName)
	}
}

func (l *Ledger) removePod(pod *v1.Pod) {
	l.do(func(ledger *placement.Ledger) { ledger.RemovePod(pod) })
	if pod.Spec.NodeName != "" {
		l.wake(pod.Spec.NodeName)
	}
}

func (l *Ledger) setNamespace(old, namespace *v1.Namespace) {
	l.do(func(ledger *placement.Ledger) { ledger.SetNamespace(namespace) })
	if old == nil || !maps.Equal(old.Labels, namespace.Labels) {
		l.wake()
	}
}

func (l *Ledger) removeNamespace(namespace *v1.Namespace) {
	l.do(func(ledger *placement.Ledger) { ledger.RemoveNamespace(namespace.Name) })
}

func setLedger(_ context.Context, s *shared) (func(context.Context) error, error) {
	return s.ledger.run, nil
}
