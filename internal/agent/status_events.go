package agent

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// announceStatus makes events of waits that begin: the status says that a
// container waits, the event says since when and how often.
func (w *worker) announceStatus(pod *v1.Pod, before, after v1.PodStatus) {
	was := waits(before)
	for name, waiting := range waits(after) {
		if was[name].Reason == waiting.Reason {
			continue
		}
		switch waiting.Reason {
		case "CrashLoopBackOff":
			w.events.Container(pod, name, v1.EventTypeWarning, "BackOff",
				fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", name, pod.Name, pod.Namespace, pod.UID))
		case "ImagePullBackOff":
			w.events.Container(pod, name, v1.EventTypeNormal, "BackOff", waiting.Message)
			w.events.Container(pod, name, v1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
		case "ErrImageNeverPull":
			w.events.Container(pod, name, v1.EventTypeWarning, "ErrImageNeverPull", waiting.Message)
			w.events.Container(pod, name, v1.EventTypeWarning, "Failed", "Error: ErrImageNeverPull")
		case "InvalidImageName":
			w.events.Container(pod, name, v1.EventTypeWarning, "InspectFailed", waiting.Message)
			w.events.Container(pod, name, v1.EventTypeWarning, "Failed", "Error: InvalidImageName")
		}
	}
	if before.Phase != after.Phase && after.Phase == v1.PodFailed && after.Reason != "" {
		w.events.Pod(pod, v1.EventTypeWarning, after.Reason, after.Message)
	}
}

// waits are the waiting states of a status, by container.
func waits(status v1.PodStatus) map[string]v1.ContainerStateWaiting {
	all := map[string]v1.ContainerStateWaiting{}
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for _, s := range list {
			if s.State.Waiting != nil {
				all[s.Name] = *s.State.Waiting
			}
		}
	}
	return all
}
