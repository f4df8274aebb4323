package podplan

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

const (
	podCompleted             = "PodCompleted"
	podFailed                = "PodFailed"
	containersNotReady       = "ContainersNotReady"
	containersNotInitialized = "ContainersNotInitialized"
	unknownContainerStatuses = "UnknownContainerStatuses"
	readinessGatesNotReady   = "ReadinessGatesNotReady"
)

// conditions writes the conditions that the node owns over those of the same type.
func (v *view) conditions(s *v1.PodStatus) {
	containersReady := v.containersReady(s)
	network := v.sandbox != nil && (v.pod.Spec.HostNetwork || len(v.sandbox.IPs) > 0)
	for _, c := range []v1.PodCondition{
		truth(v1.PodReadyToStartContainers, network),
		v.initializedCondition(s),
		v.readyCondition(s, containersReady),
		containersReady,
		truth(v1.PodScheduled, true),
	} {
		v.setCondition(s, c)
	}
}

func (v *view) setCondition(s *v1.PodStatus, c v1.PodCondition) {
	c.ObservedGeneration = v.pod.Generation
	c.LastTransitionTime = apiTime(v.now)
	at := slices.IndexFunc(s.Conditions, func(old v1.PodCondition) bool { return old.Type == c.Type })
	if at < 0 {
		s.Conditions = append(s.Conditions, c)
		return
	}
	if old := s.Conditions[at]; old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	s.Conditions[at] = c
}

func truth(kind v1.PodConditionType, is bool) v1.PodCondition {
	if is {
		return v1.PodCondition{Type: kind, Status: v1.ConditionTrue}
	}
	return v1.PodCondition{Type: kind, Status: v1.ConditionFalse}
}

func no(kind v1.PodConditionType, reason, message string) v1.PodCondition {
	return v1.PodCondition{Type: kind, Status: v1.ConditionFalse, Reason: reason, Message: message}
}

// initializedCondition is True once all init containers are through, and stays so
// while this sandbox lives once an app container has been there.
func (v *view) initializedCondition(s *v1.PodStatus) v1.PodCondition {
	switch {
	case s.Phase == v1.PodSucceeded:
		yes := truth(v1.PodInitialized, true)
		yes.Reason = podCompleted
		return yes
	case len(v.inits) == 0:
		return truth(v1.PodInitialized, true)
	case s.InitContainerStatuses == nil:
		return no(v1.PodInitialized, unknownContainerStatuses, "")
	}
	var incomplete []string
	for i, m := range v.inits {
		if m.passed || (m.role == initStep && s.InitContainerStatuses[i].Ready) {
			continue
		}
		incomplete = append(incomplete, m.Name)
	}
	if len(incomplete) == 0 || v.ending != nil && v.wasInitialized() {
		return truth(v1.PodInitialized, true)
	}
	return no(v1.PodInitialized, containersNotInitialized, fmt.Sprintf("containers with incomplete status: %v", incomplete))
}

func (v *view) containersReady(s *v1.PodStatus) v1.PodCondition {
	switch s.Phase {
	case v1.PodSucceeded:
		return no(v1.ContainersReady, podCompleted, "")
	case v1.PodFailed:
		return no(v1.ContainersReady, podFailed, "")
	}
	if s.ContainerStatuses == nil {
		return no(v1.ContainersReady, unknownContainerStatuses, "")
	}
	var unready []string
	statuses := slices.Concat(s.InitContainerStatuses, s.ContainerStatuses)
	for i, m := range v.members() {
		if m.role != initStep && !statuses[i].Ready {
			unready = append(unready, m.Name)
		}
	}
	if len(unready) > 0 {
		return no(v1.ContainersReady, containersNotReady, fmt.Sprintf("containers with unready status: %v", unready))
	}
	return truth(v1.ContainersReady, true)
}

// readyCondition is containersReady, and every readiness gate beside it.
func (v *view) readyCondition(s *v1.PodStatus, containersReady v1.PodCondition) v1.PodCondition {
	if containersReady.Status != v1.ConditionTrue {
		return no(v1.PodReady, containersReady.Reason, containersReady.Message)
	}
	var closed []string
	for _, gate := range v.pod.Spec.ReadinessGates {
		at := slices.IndexFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == gate.ConditionType })
		switch {
		case at < 0:
			closed = append(closed, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case s.Conditions[at].Status != v1.ConditionTrue:
			closed = append(closed, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, s.Conditions[at].Status))
		}
	}
	if len(closed) > 0 {
		return no(v1.PodReady, readinessGatesNotReady, strings.Join(closed, ", "))
	}
	return truth(v1.PodReady, true)
}
