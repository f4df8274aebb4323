package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	goruntime "runtime"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"muster.dev/muster/internal/runtime"
)

// node keeps the Node object true: registration, lease and status.
type node struct {
	name     string
	ips      []net.IP
	port     int32 // of the HTTPS endpoint; 0 for none
	labels   map[string]string
	taints   []v1.Taint
	maxPods  int
	reserved v1.ResourceList
	version  string

	client  kubernetes.Interface
	runtime runtime.Runtime
	machine machine
	clock   clock.WithTicker
	events  *events
	log     *slog.Logger

	lastWrite time.Time // of the status; owned by keepStatus
}

// register makes the Node exist and carry this node's labels, until it does or
// ctx ends. What others put on an existing Node stays.
func (n *node) register(ctx context.Context) error {
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 7*time.Second) {
		err := n.tryRegister(ctx)
		if err == nil {
			n.events.Node(v1.EventTypeNormal, "Starting", "Starting kubelet.")
			return nil
		}
		n.log.Warn("Registering the node failed, will retry", "wait", wait, "err", err)
		select {
		case <-ctx.Done():
			return fmt.Errorf("registering node %s: %w", n.name, context.Cause(ctx))
		case <-n.clock.After(wait):
		}
	}
}

func (n *node) tryRegister(ctx context.Context) error {
	nodes := n.client.CoreV1().Nodes()
	found, err := nodes.Get(ctx, n.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = nodes.Create(ctx, n.newNode(ctx), metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	want := found.DeepCopy()
	if want.Labels == nil {
		want.Labels = map[string]string{}
	}
	maps.Copy(want.Labels, n.ownLabels())
	if maps.Equal(want.Labels, found.Labels) {
		return nil
	}
	_, err = nodes.Update(ctx, want, metav1.UpdateOptions{})
	return err
}

// newNode is the Node as it registers: not ready, until its first status says so.
func (n *node) newNode(ctx context.Context) *v1.Node {
	fresh := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: n.ownLabels()},
		Spec: v1.NodeSpec{Taints: append([]v1.Taint{
			{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule},
		}, n.taints...)},
	}
	fresh.Status = n.observe(ctx).over(fresh.Status, metav1.NewTime(n.clock.Now()))
	return fresh
}

func (n *node) ownLabels() map[string]string {
	labels := maps.Clone(n.labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1.LabelHostname] = n.name
	labels[v1.LabelOSStable] = goruntime.GOOS
	labels[v1.LabelArchStable] = goruntime.GOARCH
	return labels
}

func newNode(s *shared, client kubernetes.Interface, machine machine) *node {
	c := s.config
	return &node{
		name: c.NodeName, ips: c.NodeIPs, labels: c.Labels, taints: c.Taints,
		maxPods: c.MaxPods, reserved: c.Reserved, version: c.Version,
		client: client, runtime: s.runtime, machine: machine, clock: s.clock, events: s.events, log: s.log,
	}
}
