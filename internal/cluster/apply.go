package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/internal/daemonset"
)

// Apply carries a plan out: claims, then revisions, then deletes and creates, then
// the status, then the events. It goes on as long as what later steps stand on has
// succeeded; the status is written whatever became of the Pods, and says so.
func (c *Cluster) Apply(ctx context.Context, plan daemonset.Plan) error {
	c.remember(plan)
	if err := c.claim(ctx, plan); err != nil {
		return err
	}
	if len(plan.Adopt)+len(plan.Release) > 0 {
		return nil // the change of ownership wakes the set
	}
	if err := c.keepHistory(ctx, plan); err != nil {
		return err
	}
	var story story
	err := c.movePods(ctx, plan, &story)
	if plan.Acts() && !plan.History.Collided {
		// The status to write is the one after what was just done.
		if again, ok := c.Decide(plan.Set.UID); ok {
			plan.Status = again.Status
		}
	}
	err = errors.Join(err, c.writeStatus(ctx, plan))
	c.tell(plan, &story)
	return err
}

// remember keeps what the plan knows of failures for the next one.
func (c *Cluster) remember(plan daemonset.Plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(plan.Failures) == 0 {
		delete(c.failures, plan.Set.UID)
		return
	}
	c.failures[plan.Set.UID] = plan.Failures
}

func (c *Cluster) pace(set types.UID) *pace {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paces[set] == nil {
		c.paces[set] = &pace{}
	}
	return c.paces[set]
}

// movePods deletes and creates. A failed delete does not keep nodes uncovered.
func (c *Cluster) movePods(ctx context.Context, plan daemonset.Plan, story *story) error {
	pace := c.pace(plan.Set.UID)
	deleting := pace.burst(ctx, len(plan.Delete), func(ctx context.Context, i int) error {
		err := c.deletePod(ctx, plan.Delete[i])
		if apierrors.IsConflict(err) {
			return nil // the Pod has changed since; its news brings the next decision
		}
		return story.didDelete(plan.Delete[i], err)
	})
	creating := pace.burst(ctx, len(plan.Create), func(ctx context.Context, i int) error {
		return story.didCreate(plan.Create[i], c.createPod(ctx, plan.Create[i]))
	})
	return errors.Join(deleting, creating)
}

// deletePod deletes the very Pod that was decided on; one that is already gone is
// as good.
func (c *Cluster) deletePod(ctx context.Context, deletion daemonset.Deletion) error {
	pod := deletion.Pod
	only := &metav1.Preconditions{UID: &pod.UID}
	if deletion.Unready {
		only.ResourceVersion = &pod.ResourceVersion
	}
	err := c.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: only})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting Pod %s: %w", pod.Name, err)
	}
	c.ended(pod)
	return nil
}

// errTaken says that something else has the name of a Pod to create.
var errTaken = errors.New("another object has this Pod's name")

// createPod creates a Pod, bound if there is still room for it. A name that is
// taken by the set's own Pod means that it was created before.
func (c *Cluster) createPod(ctx context.Context, creation daemonset.Creation) error {
	pod := creation.Pod
	reserved := false
	if pod.Spec.NodeName != "" && c.Room != nil {
		if reserved = len(c.Room.Reserve(pod, creation.Node)) == 0; !reserved {
			pod.Spec.NodeName = ""
		}
	}
	created, err := c.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil && reserved {
		c.Room.Release(pod.Namespace, pod.Name)
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return c.see(ctx, pod)
	case apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
		return nil // the namespace and the set go together
	case err != nil:
		return fmt.Errorf("creating Pod %s: %w", pod.Name, err)
	}
	c.wrote(created)
	return nil
}

// see reads a Pod that the cache has not shown yet.
func (c *Cluster) see(ctx context.Context, wanted *v1.Pod) error {
	found, err := c.Client.CoreV1().Pods(wanted.Namespace).Get(ctx, wanted.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading Pod %s: %w", wanted.Name, err)
	}
	owner, ours := metav1.GetControllerOfNoCopy(found), metav1.GetControllerOfNoCopy(wanted)
	if owner == nil || owner.UID != ours.UID {
		return fmt.Errorf("creating Pod %s: %w", wanted.Name, errTaken)
	}
	c.wrote(found)
	return nil
}

// claim adopts orphans and releases Pods. Each patch names the UID it is for, and
// nothing is adopted for a set that the API is already deleting.
func (c *Cluster) claim(ctx context.Context, plan daemonset.Plan) error {
	if len(plan.Adopt) > 0 {
		if err := c.stillThere(ctx, plan); err != nil {
			return err
		}
	}
	owner := *metav1.NewControllerRef(plan.Set, daemonset.ControllerKind)
	var all []error
	for _, pod := range plan.Adopt {
		all = append(all, c.own(ctx, pod, map[string]any{"ownerReferences": []any{owner}, "uid": pod.UID}))
	}
	for _, pod := range plan.Release {
		dropped := map[string]any{"$patch": "delete", "uid": plan.Set.UID}
		all = append(all, c.own(ctx, pod, map[string]any{"ownerReferences": []any{dropped}, "uid": pod.UID}))
	}
	return errors.Join(all...)
}

// stillThere reads the set from the API itself.
func (c *Cluster) stillThere(ctx context.Context, plan daemonset.Plan) error {
	live, err := c.Client.AppsV1().DaemonSets(plan.Set.Namespace).Get(ctx, plan.Set.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("reading DaemonSet %s before adopting for it: %w", plan.Set.Name, err)
	case live.UID != plan.Set.UID || live.DeletionTimestamp != nil:
		return fmt.Errorf("adopting for DaemonSet %s: it is being deleted or is another one now", plan.Set.Name)
	}
	return nil
}

// own patches a Pod's metadata; a Pod that is gone needs no owner.
func (c *Cluster) own(ctx context.Context, pod *v1.Pod, metadata map[string]any) error {
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("writing the owner of Pod %s: %w", pod.Name, err)
	}
	patched, err := c.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("changing the owner of Pod %s: %w", pod.Name, err)
	}
	c.wrote(patched)
	return nil
}
