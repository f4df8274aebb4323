package coverage

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/reason"
)

// longInit is how long an init container may run before it is a reason of its
// own: a step that never ends looks like one that works.
const longInit = 5 * time.Minute

// PodReasons say why a Pod on a node (or meant for it) is not Ready, the nearest
// to the root of it first; none for a Pod that is.
func PodReasons(pod *v1.Pod, node *v1.Node, now time.Time) []reason.Reason {
	switch {
	case pod.DeletionTimestamp != nil:
		since := pod.DeletionTimestamp.UTC()
		if pod.DeletionGracePeriodSeconds != nil {
			since = since.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		}
		return append(nodeReasons(node), reason.Reason{Code: reason.PodTerminating, Object: pod.Name, Detail: since.Format(time.RFC3339)})
	case Ended(pod):
		return []reason.Reason{{Code: reason.PodFailed, Object: pod.Name, Detail: joined(pod.Status.Reason, pod.Status.Message, string(pod.Status.Phase))}}
	case pod.Spec.NodeName == "":
		return []reason.Reason{unplaced(pod)}
	case Ready(pod):
		return nil
	}
	reasons := append(nodeReasons(node), containerReasons(pod, now)...)
	if len(reasons) == 0 {
		reasons = append(reasons, reason.Reason{Code: reason.PodUnseen, Object: pod.Name})
	}
	return reasons
}

func unplaced(pod *v1.Pod) reason.Reason {
	condition := podCondition(pod, v1.PodScheduled)
	if condition == nil || condition.Status != v1.ConditionFalse {
		return reason.Reason{Code: reason.PodUnplaced, Object: pod.Name}
	}
	code := reason.PodUnschedulable
	if condition.Reason == v1.PodReasonSchedulingGated {
		code = reason.SchedulingGated
	}
	return reason.Reason{Code: code, Object: pod.Name, Detail: condition.Message}
}

func nodeReasons(node *v1.Node) []reason.Reason {
	for _, condition := range node.Status.Conditions {
		if condition.Type != v1.NodeReady {
			continue
		}
		if condition.Status == v1.ConditionTrue {
			return nil
		}
		return []reason.Reason{{Code: reason.NodeNotReady, Object: node.Name, Detail: joined(condition.Reason, condition.Message, string(condition.Status))}}
	}
	return []reason.Reason{{Code: reason.NodeNotReady, Object: node.Name, Detail: "it has not reported yet"}}
}

// containerReasons follow the Pod's own order: the first init step that has not
// ended well is what all else waits for.
func containerReasons(pod *v1.Pod, now time.Time) []reason.Reason {
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if r, waits := initReason(status, sidecar(pod, status.Name), now); waits {
			return []reason.Reason{r}
		}
	}
	var reasons []reason.Reason
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; !status.Ready {
			reasons = append(reasons, containerReason(status))
		}
	}
	for _, gate := range pod.Spec.ReadinessGates {
		condition := podCondition(pod, gate.ConditionType)
		if condition == nil {
			reasons = append(reasons, reason.Reason{Code: reason.ReadinessGate, Object: string(gate.ConditionType), Detail: "never set"})
		} else if condition.Status != v1.ConditionTrue {
			reasons = append(reasons, reason.Reason{Code: reason.ReadinessGate, Object: string(gate.ConditionType), Detail: joined(condition.Reason, condition.Message, string(condition.Status))})
		}
	}
	return reasons
}

func initReason(status *v1.ContainerStatus, sidecar bool, now time.Time) (reason.Reason, bool) {
	switch {
	case sidecar && status.Started != nil && *status.Started:
		return reason.Reason{}, false
	case status.State.Running != nil && !sidecar:
		ran := now.Sub(status.State.Running.StartedAt.Time).Round(time.Second)
		if ran < longInit {
			return reason.Reason{Code: reason.PodInitializing, Object: status.Name}, true
		}
		return reason.Reason{Code: reason.InitRunning, Object: status.Name, Asked: ran.String()}, true
	case status.State.Terminated != nil && status.State.Terminated.ExitCode == 0 && !sidecar:
		return reason.Reason{}, false
	case status.LastTerminationState.Terminated != nil && status.State.Waiting != nil && crashed(status.State.Waiting.Reason):
		return ended(reason.InitFailed, status, status.LastTerminationState.Terminated), true
	case status.State.Terminated != nil:
		return ended(reason.InitFailed, status, status.State.Terminated), true
	}
	return containerReason(status), true
}

// crashed says that a container waits only because its last attempt ended badly.
func crashed(waitingFor string) bool { return waitingFor == "CrashLoopBackOff" }

func containerReason(status *v1.ContainerStatus) reason.Reason {
	waiting := status.State.Waiting
	switch {
	case status.State.Running != nil:
		return reason.Reason{Code: reason.ContainerUnready, Object: status.Name}
	case status.State.Terminated != nil:
		return ended(reason.ContainerEnded, status, status.State.Terminated)
	case waiting == nil:
		return reason.Reason{Code: reason.ContainerWaiting, Object: status.Name, Detail: "it has not been reported yet"}
	case crashed(waiting.Reason) && status.LastTerminationState.Terminated != nil:
		return ended(reason.ContainerEnded, status, status.LastTerminationState.Terminated)
	}
	if code := reason.Code(waiting.Reason); reason.Known(code) {
		return reason.Reason{Code: code, Object: status.Name, Detail: waiting.Message}
	}
	return reason.Reason{Code: reason.ContainerWaiting, Object: status.Name, Detail: joined(waiting.Reason, waiting.Message)}
}

func ended(code reason.Code, status *v1.ContainerStatus, last *v1.ContainerStateTerminated) reason.Reason {
	detail := fmt.Sprintf("exit code %d", last.ExitCode)
	if last.Reason != "" && last.Reason != "Error" && last.Reason != "Completed" {
		detail += " (" + last.Reason + ")"
	}
	return reason.Reason{Code: code, Object: status.Name, Count: int(status.RestartCount) + 1, Detail: detail}
}

func sidecar(pod *v1.Pod, name string) bool {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name == name {
			return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		}
	}
	return false
}

// joined puts a word and the sentence that explains it together; the fallback
// speaks where both are missing.
func joined(word, sentence string, fallback ...string) string {
	switch {
	case word != "" && sentence != "":
		return word + ": " + sentence
	case word+sentence != "":
		return word + sentence
	case len(fallback) > 0:
		return fallback[0]
	}
	return "no reason given"
}
