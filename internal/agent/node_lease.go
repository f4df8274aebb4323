package agent

import (
	"context"
	"fmt"
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/apimachinery/lease"
)

const (
	leaseDuration = 40 * time.Second
	leaseRenewal  = 10 * time.Second
)

// keepLease renews the node's lease, by which the control plane knows that the
// agent lives, until ctx ends. The lease stays behind: its age is the news.
func (n *node) keepLease(ctx context.Context) {
	lease.NewController(n.clock, n.client, n.name, int32(leaseDuration.Seconds()), nil, leaseRenewal,
		n.name, v1.NamespaceNodeLease, n.ownLease).Run(ctx)
}

// ownLease ties the lease to the Node object, so that it goes with it.
func (n *node) ownLease(l *coordination.Lease) error {
	if len(l.OwnerReferences) > 0 {
		return nil
	}
	owner, err := n.client.CoreV1().Nodes().Get(context.Background(), n.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("finding the lease's node: %w", err)
	}
	l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: owner.Name, UID: owner.UID}}
	return nil
}
