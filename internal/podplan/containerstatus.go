package podplan

import v1 "k8s.io/api/core/v1"

const (
	containerCreating = "ContainerCreating"
	podInitializing   = "PodInitializing"
	completed         = "Completed"
	endedInError      = "Error"
	statusUnknown     = "ContainerStatusUnknown"
)

// What the status says of an attempt whose end nobody saw, and of an init step of
// which no record is left though it must have succeeded.
const (
	lostMessage   = "The container could not be located when the pod was terminated"
	passedMessage = "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally"
)

func (v *view) containerStatus(m *member) v1.ContainerStatus {
	started := v.started(m)
	s := v1.ContainerStatus{Name: m.Name, Image: m.Image, Started: &started, Ready: v.ready(m), VolumeMounts: mounts(m)}
	last := m.last()
	if last == nil {
		s.State = v.stateOfNone(m)
	} else {
		s.RestartCount = int32(last.Number)
		s.ContainerID, s.ImageID = v.containerID(last), last.ImageID
		if last.Image != "" {
			s.Image = last.Image
		}
		s.State = v.state(m, last)
		s.LastTerminationState = v.lastState(m, s.State)
		s.Resources, s.AllocatedResources = m.Resources.DeepCopy(), m.Resources.Requests.DeepCopy()
	}
	switch m.role {
	case ephemeral: // it has none of these
		s.Ready, s.Started, s.Resources, s.AllocatedResources = false, nil, nil, nil
	case initStep:
		s.Ready = s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	}
	return s
}

// stateOfNone is the state of a container that never ran here.
func (v *view) stateOfNone(m *member) v1.ContainerState {
	switch {
	case m.role == initStep && m.passed:
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: completed, Message: passedMessage}}
	case m.role == app && v.terminal() && v.wasInitialized():
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: lostExitCode, Reason: statusUnknown, Message: lostMessage}}
	default:
		return v.waitingState(m)
	}
}

// wasInitialized says that the init containers have been through in some sandbox.
func (v *view) wasInitialized() bool {
	for _, m := range v.apps {
		if m.last() != nil {
			return true
		}
	}
	return len(v.inits) == 0
}

// state is the container's present state, its newest attempt being last.
func (v *view) state(m *member, last *Attempt) v1.ContainerState {
	switch {
	case last.State == RunRunning && !last.Gone:
		return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: apiTime(last.StartedAt)}}
	case last.State == RunCreated && !last.Gone:
		return v.waitingState(m)
	}
	ended := v1.ContainerState{Terminated: v.terminated(last)}
	if v.ending != nil || last.live() || !v.runsAgain(m) {
		return ended
	}
	// An end that is about to be followed by a start is shown for as long as it
	// lasts; a wait takes its place.
	if m.turn && v.startWait(m) == nil && m.latest() != nil {
		return ended
	}
	return v.waitingState(m)
}

// runsAgain says that a container that ended has more to do.
func (v *view) runsAgain(m *member) bool {
	switch m.role {
	case initStep:
		return !m.passed
	case ephemeral:
		return false
	default:
		return m.restarts(m.last())
	}
}

// waitingState is why the container does not run, where it has been its turn,
// else the general word.
func (v *view) waitingState(m *member) v1.ContainerState {
	waiting := &v1.ContainerStateWaiting{Reason: containerCreating}
	if len(v.inits) > 0 {
		waiting.Reason = podInitializing
	}
	if m.turn && v.ending == nil {
		if w := v.startWait(m); w != nil {
			waiting.Reason, waiting.Message = w.Reason, w.Message
		}
	}
	return v1.ContainerState{Waiting: waiting}
}

// lastState is how the attempt before the one in state ended.
func (v *view) lastState(m *member, state v1.ContainerState) v1.ContainerState {
	before := len(m.attempts) - 1
	if state.Waiting == nil || !m.attempts[before].ended() {
		before--
	}
	if before < 0 || !m.attempts[before].ended() {
		return v1.ContainerState{}
	}
	return v1.ContainerState{Terminated: v.terminated(&m.attempts[before])}
}

func (v *view) terminated(a *Attempt) *v1.ContainerStateTerminated {
	t := &v1.ContainerStateTerminated{
		ExitCode: a.code(), Signal: a.Signal, Reason: a.Reason, Message: a.Message,
		StartedAt: apiTime(a.StartedAt), FinishedAt: apiTime(a.FinishedAt), ContainerID: v.containerID(a),
	}
	switch {
	case a.State != RunExited:
		t.Reason, t.Message = statusUnknown, lostMessage
	case t.Reason != "":
	case a.ExitCode == 0:
		t.Reason = completed
	default:
		t.Reason = endedInError
	}
	return t
}

// containerID is the attempt's ID as the API writes it.
func (v *view) containerID(a *Attempt) string {
	runtime := v.seen.RuntimeName
	if runtime == "" {
		runtime = "containerd"
	}
	return runtime + "://" + a.ID
}

// mounts are the container's volume mounts as its status lists them.
func mounts(m *member) []v1.VolumeMountStatus {
	var all []v1.VolumeMountStatus
	for _, mount := range m.VolumeMounts {
		status := v1.VolumeMountStatus{Name: mount.Name, MountPath: mount.MountPath, ReadOnly: mount.ReadOnly}
		if mount.ReadOnly {
			mode := v1.RecursiveReadOnlyDisabled
			status.RecursiveReadOnly = &mode
		}
		all = append(all, status)
	}
	return all
}
