package agent

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/agent/probe"
	"muster.dev/muster/internal/podplan"
	"muster.dev/muster/internal/runtime"
)

// syncProbes has the probes follow the containers that run and returns their verdicts.
func (w *worker) syncProbes(pod *v1.Pod, found runtime.Pod) map[string]podplan.ProbeState {
	running := map[string]probe.Target{}
	for _, c := range found.Containers {
		if c.State != runtime.Running {
			continue
		}
		target := probe.Target{ContainerID: c.ID, PodIP: w.probeAddress(pod, found), StartedAt: c.StartedAt}
		target.Started, target.Ready = reported(pod, c)
		running[c.Name] = target
	}
	w.probes.Sync(pod, running)
	return w.probes.States(w.uid)
}

func (w *worker) probeAddress(pod *v1.Pod, found runtime.Pod) string {
	ips := w.hostIPs
	if !pod.Spec.HostNetwork {
		if len(found.Sandboxes) == 0 {
			return ""
		}
		ips = found.Sandboxes[0].IPs
	}
	if len(ips) == 0 {
		return ""
	}
	return ips[0]
}

// reported is what the Pod's status says of this very container: after a restart
// of the agent a ready container stays ready until a probe says otherwise.
func reported(pod *v1.Pod, c runtime.Container) (started, ready bool) {
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, s := range list {
			if s.Name == c.Name && strings.HasSuffix(s.ContainerID, "://"+c.ID) {
				return s.Started != nil && *s.Started, s.Ready
			}
		}
	}
	return false, false
}
