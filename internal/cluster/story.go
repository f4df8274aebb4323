package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/daemonset"
	"muster.dev/muster/internal/reason"
)

// story gathers what a plan has done, to be told in few events once all other
// writes are out.
type story struct {
	mu                   sync.Mutex
	created, deleted     []string
	failed               []string
	createErr, deleteErr error
}

func (s *story) didCreate(creation daemonset.Creation, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.createErr = cmp.Or(s.createErr, err)
	} else {
		s.created = append(s.created, creation.Pod.Name)
	}
	return err
}

func (s *story) didDelete(deletion daemonset.Deletion, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.deleteErr = cmp.Or(s.deleteErr, err)
	default:
		s.deleted = append(s.deleted, deletion.Pod.Name)
		if deletion.Reason.Code == reason.FailedPod {
			s.failed = append(s.failed, fmt.Sprintf("%s on node %s (%s)", deletion.Pod.Name, deletion.Reason.Object, deletion.Reason.Detail))
		}
	}
	return err
}

// tell records the events, in the words of Kubernetes' own controller. The
// recorder writes them behind our back and never delays a loop.
func (c *Cluster) tell(plan daemonset.Plan, s *story) {
	if len(s.failed) > 0 {
		c.Events.Eventf(plan.Set, v1.EventTypeWarning, "FailedDaemonPod", "Found failed daemon pod%s, replaced with a growing back-off", named(s.failed))
	}
	if len(s.created) > 0 {
		c.Events.Eventf(plan.Set, v1.EventTypeNormal, "SuccessfulCreate", "Created pod%s", named(s.created))
	}
	if len(s.deleted) > 0 {
		c.Events.Eventf(plan.Set, v1.EventTypeNormal, "SuccessfulDelete", "Deleted pod%s", named(s.deleted))
	}
	if s.createErr != nil {
		c.Events.Eventf(plan.Set, v1.EventTypeWarning, "FailedCreate", "Error creating: %v", s.createErr)
	}
	// What is wrong with the set itself is said once per version of it.
	for _, r := range plan.Reasons {
		if r.Code == reason.HostPortSurge && plan.Set.Status.ObservedGeneration != plan.Set.Generation {
			c.Events.Eventf(plan.Set, v1.EventTypeWarning, string(r.Code), "%s; %s", r.Text(), r.Remedy())
		}
	}
	if held := daemonset.HeldBy(plan.Status); held != "" && daemonset.HeldBy(plan.Set.Status) == "" {
		c.Events.Event(plan.Set, v1.EventTypeWarning, string(daemonset.RolloutHeld), held)
	}
	if s.deleteErr != nil {
		c.Events.Eventf(plan.Set, v1.EventTypeWarning, "FailedDelete", "Error deleting: %v", s.deleteErr)
	}
}

// named is ": a" for one name, and "s (12): a, b, c and 9 more" for many.
func named(names []string) string {
	if len(names) == 1 {
		return ": " + names[0]
	}
	const few = 10
	slices.Sort(names)
	more := ""
	if len(names) > few {
		more = fmt.Sprintf(" and %d more", len(names)-few)
	}
	return fmt.Sprintf("s (%d): %s%s", len(names), strings.Join(names[:min(few, len(names))], ", "), more)
}
