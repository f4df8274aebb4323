package control

import (
	"context"
	"errors"
	"fmt"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationlisters "k8s.io/client-go/listers/coordination/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"muster.dev/muster/internal/nodelife"
)

// nodelifeWorkers follow nodes side by side.
const nodelifeWorkers = 4

// nodelifeLoop keeps the taints and conditions of nodes true to their signs of
// life. Each node comes up when it changes, and when its silence would be too
// long; a renewed lease alone is only noted.
type nodelifeLoop struct {
	client kubernetes.Interface
	nodes  corelisters.NodeLister
	leases coordinationlisters.LeaseNamespaceLister
	pods   cache.Indexer
	events record.EventRecorder
	clock  clock.PassiveClock
	queue  workqueue.TypedRateLimitingInterface[string]

	mu    sync.Mutex
	beats map[string]nodelife.Heartbeat
	// unasked are the nodes about which the server could not be asked.
	unasked map[string]bool
}

func setNodelife(_ context.Context, s *shared) (func(context.Context) error, error) {
	nodes, pods := s.informers.Core().V1().Nodes(), s.informers.Core().V1().Pods()
	leases := s.informers.Coordination().V1().Leases()
	if err := indexByNode(pods.Informer()); err != nil {
		return nil, err
	}
	l := &nodelifeLoop{
		client: s.client, nodes: nodes.Lister(), leases: leases.Lister().Leases(v1.NamespaceNodeLease),
		pods: pods.Informer().GetIndexer(), events: s.recorder("node-controller"), clock: s.clock,
		queue: newQueue[string]("nodelife", s.clock), beats: map[string]nodelife.Heartbeat{}, unasked: map[string]bool{},
	}
	_, nodesErr := nodes.Informer().AddEventHandler(handle(l.nodeSet, l.nodeRemoved))
	_, leasesErr := leases.Informer().AddEventHandler(handle(l.leaseSet, func(*coordinationv1.Lease) {}))
	_, podsErr := pods.Informer().AddEventHandler(handle(l.podSet, func(*v1.Pod) {}))
	if err := errors.Join(nodesErr, leasesErr, podsErr); err != nil {
		return nil, fmt.Errorf("following nodes, leases and Pods: %w", err)
	}
	return func(ctx context.Context) error { return work(ctx, l.queue, nodelifeWorkers, l.follow) }, nil
}

func (l *nodelifeLoop) nodeSet(old, node *v1.Node) {
	if old != nil && old.UID != node.UID {
		l.nodeRemoved(old)
	}
	l.queue.Add(node.Name)
}

func (l *nodelifeLoop) nodeRemoved(node *v1.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.beats, node.Name)
	delete(l.unasked, node.Name)
}

// leaseSet notes when a renewal was seen; the time in it is the node's own.
func (l *nodelifeLoop) leaseSet(_, lease *coordinationv1.Lease) {
	if lease.Namespace != v1.NamespaceNodeLease {
		return
	}
	if node, err := l.nodes.Get(lease.Name); err == nil {
		l.observe(node, lease)
	}
}

// podSet looks again at a silent node when a Pod on it counts as Ready.
func (l *nodelifeLoop) podSet(_, pod *v1.Pod) {
	if pod.Spec.NodeName != "" && l.silent(pod.Spec.NodeName) && readyCondition(pod) != nil {
		l.queue.Add(pod.Spec.NodeName)
	}
}

func (l *nodelifeLoop) silent(name string) bool {
	node, err := l.nodes.Get(name)
	if err != nil {
		return false
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == v1.NodeReady {
			return c.Status == v1.ConditionUnknown
		}
	}
	return false
}

func (l *nodelifeLoop) observe(node *v1.Node, lease *coordinationv1.Lease) nodelife.Heartbeat {
	l.mu.Lock()
	defer l.mu.Unlock()
	beat := l.beats[node.Name].Observe(node, lease, l.clock.Now())
	l.beats[node.Name] = beat
	return beat
}

// follow decides on one node and carries the decision out.
func (l *nodelifeLoop) follow(ctx context.Context, name string) error {
	node, err := l.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	lease, err := l.leases.Get(name)
	if err != nil {
		lease = nil // the cache either has it or not
	}
	transition := nodelife.Decide(node, l.observe(node, lease), l.clock.Now())
	if transition.Lost() {
		// The cache may be what is silent: ask the server before the verdict.
		if lease, err = l.askForLease(ctx, name); err != nil {
			return err
		}
		transition = nodelife.Decide(node, l.observe(node, lease), l.clock.Now())
	}
	if err := l.apply(ctx, node, transition); err != nil {
		return err
	}
	if !transition.Next.IsZero() {
		l.queue.AddAfter(name, transition.Next.Sub(l.clock.Now()))
	}
	return nil
}

// askForLease reads the node's lease from the server, nil if there is none. The
// first answer after the server could not be asked excuses the node.
func (l *nodelifeLoop) askForLease(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	lease, err := l.client.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(ctx, name, metav1.GetOptions{})
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !apierrors.IsNotFound(err) {
		l.unasked[name] = true
		return nil, fmt.Errorf("reading the lease of node %s: %w", name, err)
	}
	if l.unasked[name] {
		delete(l.unasked, name)
		l.beats[name] = l.beats[name].Excuse(l.clock.Now())
	}
	if err != nil {
		return nil, nil
	}
	return lease, nil
}

func (l *nodelifeLoop) apply(ctx context.Context, node *v1.Node, transition nodelife.Transition) error {
	if transition.Conditions != nil {
		updated := node.DeepCopy()
		updated.Status.Conditions = transition.Conditions
		updated, err := l.client.CoreV1().Nodes().UpdateStatus(ctx, updated, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("saving the conditions of node %s: %w", node.Name, err)
		}
		node = updated
		why := transition.Reasons[0]
		l.events.Event(node, v1.EventTypeNormal, "NodeNotReady", why.Text())
		klog.FromContext(ctx).Info("Lost node", "node", node.Name, "reason", why.Code, "silent", why.Asked)
	}
	if transition.Retaint {
		updated := node.DeepCopy()
		updated.Spec.Taints = transition.Taints
		if _, err := l.client.CoreV1().Nodes().Update(ctx, updated, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("saving the taints of node %s: %w", node.Name, err)
		}
	}
	if transition.PodsNotReady {
		return l.podsNotReady(ctx, node.Name)
	}
	return nil
}

// podsNotReady takes back the readiness of the Pods on a silent node. One that
// cannot be written does not keep the others from it.
func (l *nodelifeLoop) podsNotReady(ctx context.Context, node string) error {
	pods, err := podsOn(l.pods, node)
	if err != nil {
		return err
	}
	var failed []error
	for _, pod := range pods {
		if readyCondition(pod) == nil {
			continue
		}
		updated := pod.DeepCopy()
		ready := readyCondition(updated)
		ready.Status, ready.LastTransitionTime = v1.ConditionFalse, metav1.NewTime(l.clock.Now())
		_, err := l.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{})
		switch {
		case err == nil:
			l.events.Event(pod, v1.EventTypeWarning, "NodeNotReady", "Node is not ready")
		case !apierrors.IsNotFound(err):
			failed = append(failed, fmt.Errorf("marking Pod %s/%s not ready: %w", pod.Namespace, pod.Name, err))
		}
	}
	return errors.Join(failed...)
}

// readyCondition is the Pod's Ready condition if it is true.
func readyCondition(pod *v1.Pod) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
			return c
		}
	}
	return nil
}
