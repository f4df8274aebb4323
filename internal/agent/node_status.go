package agent

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

const (
	statusCheck     = 10 * time.Second // how often the node looks at itself
	statusCheckSoon = time.Second      // the same while it is not Ready
	statusRenewal   = 5 * time.Minute  // how often an unchanged status is written
)

// keepStatus writes the Node's status when it changes and every five minutes,
// until ctx ends.
func (n *node) keepStatus(ctx context.Context) {
	for {
		wait := statusCheckSoon
		ready, err := n.writeStatus(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			n.log.Warn("Writing the node's status failed, will retry", "err", err)
		case ready:
			wait = statusCheck
		}
		select {
		case <-ctx.Done():
			return
		case <-n.clock.After(wait):
		}
	}
}

// writeStatus brings the Node's status up to date, keeping what others wrote
// there, and says whether the node is Ready.
func (n *node) writeStatus(ctx context.Context) (ready bool, err error) {
	seen := n.observe(ctx)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		found, err := n.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading node %s: %w", n.name, err)
		}
		now := n.clock.Now()
		want := found.DeepCopy()
		want.Status = seen.over(found.Status, metav1.NewTime(now))
		if sameStatus(found.Status, want.Status) && now.Sub(n.lastWrite) < statusRenewal {
			return nil
		}
		if _, err := n.client.CoreV1().Nodes().UpdateStatus(ctx, want, metav1.UpdateOptions{}); err != nil {
			return err
		}
		n.lastWrite = now
		n.announce(found.Status, want.Status)
		return nil
	})
	return len(seen.troubles) == 0, err
}

// announce turns a change of the status into events.
func (n *node) announce(before, after v1.NodeStatus) {
	if was := before.NodeInfo.BootID; was != "" && was != after.NodeInfo.BootID {
		n.events.Node(v1.EventTypeWarning, "Rebooted",
			fmt.Sprintf("Node %s has been rebooted, boot id: %s", n.name, after.NodeInfo.BootID))
	}
	old, ready := condition(before, v1.NodeReady), condition(after, v1.NodeReady)
	if old != nil && old.Status == ready.Status {
		return
	}
	reason := "NodeNotReady"
	if ready.Status == v1.ConditionTrue {
		reason = "NodeReady"
	}
	n.events.Node(v1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", n.name, reason))
}

// sameStatus compares two statuses but for their heartbeats.
func sameStatus(a, b v1.NodeStatus) bool {
	return equality.Semantic.DeepEqual(withoutHeartbeats(a), withoutHeartbeats(b))
}

func withoutHeartbeats(status v1.NodeStatus) v1.NodeStatus {
	still := *status.DeepCopy()
	for i := range still.Conditions {
		still.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	return still
}

func condition(status v1.NodeStatus, kind v1.NodeConditionType) *v1.NodeCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return &status.Conditions[i]
		}
	}
	return nil
}
