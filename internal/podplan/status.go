package podplan

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Status is what the API should say of the Pod, whole. Conditions and fields
// that others own are taken over from pod.Status as they stand there.
func Status(pod *v1.Pod, seen Observed, now time.Time) v1.PodStatus {
	v := look(pod, seen, now)
	s := *pod.Status.DeepCopy()
	s.ObservedGeneration = pod.Generation
	if s.StartTime == nil {
		start := apiTime(now)
		s.StartTime = &start
	}
	v.containers(&s)
	v.phase(&s)
	v.addresses(&s)
	v.conditions(&s)
	return s
}

// containers fills in the container statuses. A Pod that the node refused has
// none: it never had a container here.
func (v *view) containers(s *v1.PodStatus) {
	s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses = nil, nil, nil
	if v.refused() {
		return
	}
	for _, m := range v.inits {
		s.InitContainerStatuses = append(s.InitContainerStatuses, v.containerStatus(m))
	}
	for _, m := range v.apps {
		s.ContainerStatuses = append(s.ContainerStatuses, v.containerStatus(m))
	}
	for _, m := range v.ephemerals {
		s.EphemeralContainerStatuses = append(s.EphemeralContainerStatuses, v.containerStatus(m))
	}
}

func (v *view) refused() bool { return v.seen.Rejected != nil && len(v.seen.Attempts) == 0 }

// phase fills in the phase with its reason and message. That a Pod has ended is
// said only once nothing of it runs any more.
func (v *view) phase(s *v1.PodStatus) {
	if old := v.pod.Status.Phase; old == v1.PodFailed || old == v1.PodSucceeded {
		return
	}
	s.Reason, s.Message = "", ""
	if !v.terminal() {
		s.Phase = v.livePhase()
		return
	}
	s.Phase, s.Reason, s.Message = v.ending.phase, v.ending.reason, v.ending.message
	if s.Phase == "" {
		s.Phase = v.appsPhase()
	}
}

// livePhase is Pending until the init containers of the present sandbox are
// through and every app container has run.
func (v *view) livePhase() v1.PodPhase {
	waiting := slices.ContainsFunc(v.apps, func(m *member) bool {
		return !slices.ContainsFunc(m.attempts, func(a Attempt) bool { return a.State != RunCreated })
	})
	redo := len(v.inits) > 0 && !v.initialized() && v.ending == nil
	if waiting || redo {
		return v1.PodPending
	}
	return v1.PodRunning
}

// addresses fills in the node's and the Pod's addresses. A Pod that has ended
// keeps the address it had.
func (v *view) addresses(s *v1.PodStatus) {
	if hosts := v.seen.HostIPs; len(hosts) > 0 {
		s.HostIP, s.HostIPs = hosts[0], nil
		for _, ip := range hosts {
			s.HostIPs = append(s.HostIPs, v1.HostIP{IP: ip})
		}
	}
	if v.sandbox == nil && v.ending != nil {
		return
	}
	s.PodIP, s.PodIPs = "", nil
	for _, ip := range v.podIPs() {
		s.PodIPs = append(s.PodIPs, v1.PodIP{IP: ip})
	}
	if len(s.PodIPs) > 0 {
		s.PodIP = s.PodIPs[0].IP
	}
}

func (v *view) podIPs() []string {
	switch {
	case v.pod.Spec.HostNetwork:
		return v.seen.HostIPs
	case v.sandbox == nil:
		return nil
	default:
		return v.sandbox.IPs
	}
}

// apiTime is a time as the API keeps it: in whole seconds.
func apiTime(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.NewTime(t.UTC().Truncate(time.Second))
}
