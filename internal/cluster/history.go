package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/internal/daemonset"
)

// errTakenRevision says that the name of a revision is taken; the next decision
// knows by what.
var errTakenRevision = errors.New("its name is taken")

// keepHistory carries out what the plan says of revisions. Pods are only made
// once the revision they carry exists.
func (c *Cluster) keepHistory(ctx context.Context, plan daemonset.Plan) error {
	h := plan.History
	client := c.Client.AppsV1().ControllerRevisions(plan.Set.Namespace)
	owner := *metav1.NewControllerRef(plan.Set, daemonset.ControllerKind)
	if len(h.Adopt) > 0 {
		if err := c.stillThere(ctx, plan); err != nil {
			return err
		}
	}
	for _, revision := range h.Adopt {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []any{owner}, "uid": revision.UID}})
		if err != nil {
			return fmt.Errorf("writing the owner of revision %s: %w", revision.Name, err)
		}
		adopted, err := client.Patch(ctx, revision.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("adopting revision %s: %w", revision.Name, err)
		}
		c.setRevision(adopted)
	}
	if h.Create != nil {
		if err := c.createRevision(ctx, h.Create); err != nil {
			return err
		}
	}
	if h.Raise != nil {
		raised, err := client.Update(ctx, h.Raise, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("raising revision %s to %d: %w", h.Raise.Name, h.Raise.Revision, err)
		}
		c.setRevision(raised)
	}
	for _, revision := range h.Delete {
		err := client.Delete(ctx, revision.Name, *metav1.NewPreconditionDeleteOptions(string(revision.UID)))
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting revision %s: %w", revision.Name, err)
		}
		c.removeRevision(revision)
	}
	return nil
}

// createRevision creates the current revision. Where the name is taken, what has
// it enters the matrix, and the next decision says whether it is the set's own or
// a collision; so a cache that lags is never taken for one.
func (c *Cluster) createRevision(ctx context.Context, revision *appsv1.ControllerRevision) error {
	client := c.Client.AppsV1().ControllerRevisions(revision.Namespace)
	created, err := client.Create(ctx, revision, metav1.CreateOptions{})
	if err == nil {
		c.setRevision(created)
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating revision %s: %w", revision.Name, err)
	}
	found, err := client.Get(ctx, revision.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading revision %s: %w", revision.Name, err)
	}
	c.setRevision(found)
	return fmt.Errorf("creating revision %s: %w", revision.Name, errTakenRevision)
}
