package podplan

import v1 "k8s.io/api/core/v1"

// started says that the container runs and its startup probe, if any, has succeeded.
func (v *view) started(m *member) bool {
	a := m.running()
	if a == nil {
		return false
	}
	if p, known := v.seen.Probes[m.Name]; known && p.ContainerID == a.ID {
		return p.Started
	}
	if m.StartupProbe == nil {
		return true
	}
	old := v.reported(m, a)
	return old != nil && old.Started != nil && *old.Started
}

// ready says that the container has started and its readiness probe, if any, agrees.
func (v *view) ready(m *member) bool {
	if !v.started(m) {
		return false
	}
	a := m.running()
	if p, known := v.seen.Probes[m.Name]; known && p.ContainerID == a.ID {
		return p.Ready
	}
	if m.ReadinessProbe == nil {
		return true
	}
	old := v.reported(m, a)
	return old != nil && old.Ready
}

// reported is what the API last said of this attempt: it holds until the probes
// of an agent that has just started have their own verdict.
func (v *view) reported(m *member, a *Attempt) *v1.ContainerStatus {
	list := v.pod.Status.ContainerStatuses
	if m.role != app {
		list = v.pod.Status.InitContainerStatuses
	}
	for i := range list {
		if list[i].Name == m.Name && list[i].ContainerID == v.containerID(a) {
			return &list[i]
		}
	}
	return nil
}
