package cluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/daemonset"
)

// writeStatus writes the whole status if it has changed. Refused for being based
// on an old version of the set, it is put on the newest one, as long as that is
// the same set and no other writer has counted a collision meanwhile.
func (c *Cluster) writeStatus(ctx context.Context, plan daemonset.Plan) error {
	client := c.Client.AppsV1().DaemonSets(plan.Set.Namespace)
	set := plan.Set
	for tries := 0; ; tries++ {
		if equality.Semantic.DeepEqual(set.Status, plan.Status) {
			return nil
		}
		next := set.DeepCopy()
		next.Status = plan.Status
		written, err := client.UpdateStatus(ctx, next, metav1.UpdateOptions{})
		switch {
		case err == nil:
			c.setDaemon(written)
			return nil
		case apierrors.IsNotFound(err):
			return nil // the set is gone, and its status with it
		case !apierrors.IsConflict(err) || plan.History.Collided || tries == 3:
			return fmt.Errorf("writing the status of DaemonSet %s: %w", set.Name, err)
		}
		set, err = client.Get(ctx, set.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || (err == nil && set.UID != plan.Set.UID) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading DaemonSet %s to write its status: %w", plan.Set.Name, err)
		}
		plan.Status = daemonset.Onto(set.Status, plan.Status)
	}
}
