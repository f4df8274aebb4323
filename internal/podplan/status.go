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
		start := metav1.NewTime(now)
		s.StartTime = &start
	}
	s.InitContainerStatuses = v.containerStatuses(v.inits)
	s.ContainerStatuses = v.containerStatuses(v.apps)
	s.Phase = v.phase()
	s.Reason, s.Message = "", ""
	if v.ending != nil {
		s.Reason, s.Message = v.ending.reason, v.ending.message
	}
	v.addresses(&s)
	v.conditions(&s)
	return s
}

// phase is the Pod's phase. A phase that says "ended" is said only once nothing
// runs any more.
func (v *view) phase() v1.PodPhase {
	if old := v.pod.Status.Phase; old == v1.PodFailed || old == v1.PodSucceeded {
		return old
	}
	if v.ending != nil && (v.ending.reason != "" || v.terminal()) {
		return v.endPhase()
	}
	if v.ending == nil || v.ending.deletion {
		return v.livePhase()
	}
	if v.sandbox == nil || v.initialized() {
		return v1.PodRunning
	}
	return v1.PodPending
}

// endPhase is the phase of a Pod that ends: what made it end decides, else how
// its containers ended.
func (v *view) endPhase() v1.PodPhase {
	if v.ending.phase != "" {
		return v.ending.phase
	}
	for _, m := range v.apps {
		if last := m.last(); last == nil || !last.succeeded() {
			return v1.PodFailed
		}
	}
	return v1.PodSucceeded
}

// livePhase is Running once every init container has had its turn and every app
// container has been there.
func (v *view) livePhase() v1.PodPhase {
	waiting := slices.ContainsFunc(v.apps, func(m *member) bool {
		last := m.last()
		return last == nil || (!last.ended() && !last.live())
	})
	if waiting || (v.sandbox != nil && !v.initialized()) || (v.sandbox == nil && len(v.inits) > 0 && v.ending == nil) {
		return v1.PodPending
	}
	return v1.PodRunning
}

// addresses fills in the node's and the Pod's addresses.
func (v *view) addresses(s *v1.PodStatus) {
	if len(v.seen.HostIPs) > 0 {
		s.HostIP, s.HostIPs = v.seen.HostIPs[0], nil
		for _, ip := range v.seen.HostIPs {
			s.HostIPs = append(s.HostIPs, v1.HostIP{IP: ip})
		}
	}
	var ips []string
	switch {
	case v.sandbox == nil:
		if v.ending != nil {
			return // an ended Pod keeps the address it had
		}
	case v.pod.Spec.HostNetwork:
		ips = v.seen.HostIPs
	default:
		ips = v.sandbox.IPs
	}
	s.PodIP, s.PodIPs = "", nil
	for i, ip := range ips {
		if i == 0 {
			s.PodIP = ip
		}
		s.PodIPs = append(s.PodIPs, v1.PodIP{IP: ip})
	}
}
