package podplan

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	containerCreating = "ContainerCreating"
	podInitializing   = "PodInitializing"
	completed         = "Completed"
	failedReason      = "Error"
	statusUnknown     = "ContainerStatusUnknown"
	lostMessage       = "The container could not be located when the pod was terminated"
)

func (v *view) containerStatuses(members []*member) []v1.ContainerStatus {
	var all []v1.ContainerStatus
	for _, m := range members {
		all = append(all, v.containerStatus(m))
	}
	return all
}

func (v *view) containerStatus(m *member) v1.ContainerStatus {
	s := v1.ContainerStatus{Name: m.Name, Image: m.Image}
	started := v.started(m)
	s.Started = &started
	s.Ready = v.ready(m)
	if m.kind == initStep {
		s.Ready = m.done() || (v.sandbox == nil && v.ending != nil && m.last() != nil && m.last().succeeded())
	}
	last := m.last()
	if last == nil {
		s.State = v.notStarted(m)
		return s
	}
	s.RestartCount = int32(last.Number)
	s.ContainerID = v.containerID(last)
	if last.Image != "" {
		s.Image = last.Image
	}
	s.ImageID = last.ImageID
	s.State = v.state(m, last)
	s.LastTerminationState = v.lastState(m, s.State)
	return s
}

// state is the container's present state, its newest attempt being last.
func (v *view) state(m *member, last *Attempt) v1.ContainerState {
	switch {
	case last.live():
		return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(last.StartedAt)}}
	case !last.ended():
		return v.notStarted(m)
	}
	ended := v1.ContainerState{Terminated: v.terminated(last)}
	if v.ending != nil || !v.runsAgain(m, last) {
		return ended
	}
	if w := v.startWait(m); w != nil {
		return waiting(w.Reason, w.Message)
	}
	if m.latest() == nil || !v.imageHere(m) {
		return v.notStarted(m)
	}
	return ended
}

// runsAgain says that the container, which ended, is to be started again.
func (v *view) runsAgain(m *member, last *Attempt) bool {
	if m.kind == initStep {
		return !m.done() && !v.appSeen()
	}
	return m.restarts(last)
}

// notStarted is the state of a container before an attempt of it runs.
func (v *view) notStarted(m *member) v1.ContainerState {
	if v.ending != nil && v.terminal() {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: lostExitCode, Reason: statusUnknown, Message: lostMessage}}
	}
	if w := v.startWait(m); w != nil && v.ending == nil {
		return waiting(w.Reason, w.Message)
	}
	if len(v.inits) > 0 {
		return waiting(podInitializing, "")
	}
	return waiting(containerCreating, "")
}

// lastState is how the attempt before the one in state ended.
func (v *view) lastState(m *member, state v1.ContainerState) v1.ContainerState {
	before := len(m.attempts) - 1
	if state.Waiting != nil && m.attempts[before].ended() {
		return v1.ContainerState{Terminated: v.terminated(&m.attempts[before])}
	}
	if before--; before < 0 || !m.attempts[before].ended() {
		return v1.ContainerState{}
	}
	return v1.ContainerState{Terminated: v.terminated(&m.attempts[before])}
}

func (v *view) terminated(a *Attempt) *v1.ContainerStateTerminated {
	t := &v1.ContainerStateTerminated{
		ExitCode: a.ExitCode, Signal: a.Signal, Reason: a.Reason, Message: a.Message,
		StartedAt: apiTime(a.StartedAt), FinishedAt: apiTime(a.FinishedAt), ContainerID: v.containerID(a),
	}
	switch {
	case a.State != RunExited:
		t.ExitCode, t.Reason, t.Message = lostExitCode, statusUnknown, lostMessage
	case t.Reason != "":
	case a.ExitCode == 0:
		t.Reason = completed
	default:
		t.Reason = failedReason
	}
	return t
}

func waiting(reason, message string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// containerID is the attempt's ID as the API writes it.
func (v *view) containerID(a *Attempt) string {
	runtime := v.seen.RuntimeName
	if runtime == "" {
		runtime = "containerd"
	}
	return runtime + "://" + a.ID
}

func apiTime(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.NewTime(t)
}

// kubeDuration is a wait as Kubernetes prints it: 10s, 1m20s, 5m0s.
func kubeDuration(d time.Duration) string { return d.String() }
