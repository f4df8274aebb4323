package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"muster.dev/muster/internal/nodelife"
)

const (
	// countAfter is how long the ends of Pods are gathered before they are counted.
	countAfter = 20 * time.Second

	podgcWorkers = 2
)

// podgcLoop removes the Pods that nobody will end any more.
type podgcLoop struct {
	client kubernetes.Interface
	nodes  corelisters.NodeLister
	pods   corelisters.PodLister
	byNode cache.Indexer
	clock  clock.PassiveClock
	queue  workqueue.TypedRateLimitingInterface[garbage]
	most   int // ended Pods to keep

	mu sync.Mutex
	// gone says since when a node is known not to exist.
	gone map[string]time.Time
}

// garbage is where to look: at the Pods of a node, at one Pod, or, where both
// are empty, at the number of ended Pods.
type garbage struct {
	node string
	pod  types.NamespacedName
}

func setPodGC(ctx context.Context, s *shared) (func(context.Context) error, error) {
	return setPodGCKeeping(ctx, s, nodelife.MostEnded)
}

func setPodGCKeeping(_ context.Context, s *shared, most int) (func(context.Context) error, error) {
	nodes, pods := s.informers.Core().V1().Nodes(), s.informers.Core().V1().Pods()
	if err := indexByNode(pods.Informer()); err != nil {
		return nil, err
	}
	l := &podgcLoop{
		client: s.client, nodes: nodes.Lister(), pods: pods.Lister(), byNode: pods.Informer().GetIndexer(),
		clock: s.clock, queue: newQueue[garbage]("podgc", s.clock), most: most,
		gone: map[string]time.Time{},
	}
	_, nodesErr := nodes.Informer().AddEventHandler(handle(l.nodeSet, l.nodeRemoved))
	_, podsErr := pods.Informer().AddEventHandler(handle(l.podSet, func(*v1.Pod) {}))
	if err := errors.Join(nodesErr, podsErr); err != nil {
		return nil, fmt.Errorf("following nodes and Pods: %w", err)
	}
	return func(ctx context.Context) error { return work(ctx, l.queue, podgcWorkers, l.collect) }, nil
}

func (l *podgcLoop) nodeSet(_, node *v1.Node) {
	l.mu.Lock()
	delete(l.gone, node.Name)
	l.mu.Unlock()
	if nodelife.OutOfService(node) {
		l.queue.Add(garbage{node: node.Name})
	}
}

func (l *podgcLoop) nodeRemoved(node *v1.Node) { l.queue.Add(garbage{node: node.Name}) }

func (l *podgcLoop) podSet(_, pod *v1.Pod) {
	if pod.DeletionTimestamp != nil {
		l.queue.Add(garbage{pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}})
	}
	if nodelife.Ended(pod) {
		l.queue.AddAfter(garbage{}, countAfter)
	}
	if pod.Spec.NodeName == "" {
		return
	}
	if _, err := l.nodes.Get(pod.Spec.NodeName); apierrors.IsNotFound(err) {
		l.queue.Add(garbage{node: pod.Spec.NodeName})
	}
}

// collect looks where it is told and removes what is to be removed.
func (l *podgcLoop) collect(ctx context.Context, where garbage) error {
	switch {
	case where.node != "":
		return l.collectNode(ctx, where)
	case where.pod.Name != "":
		return l.collectPod(ctx, where)
	}
	return l.collectExcess(ctx)
}

func (l *podgcLoop) collectNode(ctx context.Context, where garbage) error {
	node, since, err := l.node(where.node)
	if err != nil {
		return err
	}
	pods, err := podsOn(l.byNode, where.node)
	if err != nil {
		return err
	}
	var failed []error
	sure := false
	for _, pod := range pods {
		verdict := nodelife.Collect(pod, node, since, l.clock.Now())
		if !verdict.NotBefore.IsZero() {
			l.queue.AddAfter(where, verdict.NotBefore.Sub(l.clock.Now()))
			return nil // it is too early for all of them
		}
		if verdict.Disrupted && !sure {
			if sure, err = l.surelyGone(ctx, where.node); !sure {
				return err
			}
		}
		failed = append(failed, l.carryOut(ctx, pod, verdict))
	}
	return errors.Join(failed...)
}

func (l *podgcLoop) collectPod(ctx context.Context, where garbage) error {
	pod, err := l.pods.Pods(where.pod.Namespace).Get(where.pod.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Pod %s: %w", where.pod, err)
	}
	if pod.Spec.NodeName != "" {
		node, since, err := l.node(pod.Spec.NodeName)
		if err != nil || node == nil {
			return err // its node's turn comes
		}
		return l.carryOut(ctx, pod, nodelife.Collect(pod, node, since, l.clock.Now()))
	}
	return l.carryOut(ctx, pod, nodelife.Collect(pod, nil, time.Time{}, l.clock.Now()))
}

func (l *podgcLoop) collectExcess(ctx context.Context) error {
	pods, err := l.pods.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing Pods: %w", err)
	}
	excess, why := nodelife.Excess(pods, l.most)
	var failed []error
	for _, pod := range excess {
		failed = append(failed, l.carryOut(ctx, pod, nodelife.Collection{Collect: true, Reason: why}))
	}
	return errors.Join(failed...)
}

// node is the node, or nil and since when it is known not to exist.
func (l *podgcLoop) node(name string) (*v1.Node, time.Time, error) {
	node, err := l.nodes.Get(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		return node, time.Time{}, nil
	case !apierrors.IsNotFound(err):
		return nil, time.Time{}, fmt.Errorf("reading node %s: %w", name, err)
	}
	if l.gone[name].IsZero() {
		l.gone[name] = l.clock.Now()
	}
	return nil, l.gone[name], nil
}

// surelyGone asks the server whether the node is gone: a cache that lags must not
// cost running Pods their lives.
func (l *podgcLoop) surelyGone(ctx context.Context, name string) (bool, error) {
	_, err := l.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("making sure that node %s is gone: %w", name, err)
	}
	return false, nil
}

// carryOut marks the Pod as failed, unless it has ended, and deletes it at once.
func (l *podgcLoop) carryOut(ctx context.Context, pod *v1.Pod, verdict nodelife.Collection) error {
	if !verdict.Collect {
		return nil
	}
	if err := l.markFailed(ctx, pod, verdict); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Collecting Pod", "pod", klog.KObj(pod), "reason", verdict.Reason.Code)
	now := int64(0)
	err := l.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (l *podgcLoop) markFailed(ctx context.Context, pod *v1.Pod, verdict nodelife.Collection) error {
	if nodelife.Ended(pod) {
		return nil
	}
	updated := pod.DeepCopy()
	updated.Status.Phase = v1.PodFailed
	if verdict.Disrupted {
		setPodCondition(&updated.Status, v1.PodCondition{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, ObservedGeneration: pod.Generation,
			Reason: string(verdict.Reason.Code), Message: verdict.Reason.Text(),
		}, l.clock.Now())
	}
	_, err := l.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("marking Pod %s/%s as failed: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
