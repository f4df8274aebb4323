package podplan

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// effectivePolicy is the container's own restart policy, else the Pod's.
func effectivePolicy(pod *v1.Pod, c *v1.Container) v1.RestartPolicy {
	switch {
	case c.RestartPolicy != nil:
		return v1.RestartPolicy(*c.RestartPolicy)
	case pod.Spec.RestartPolicy == "":
		return v1.RestartPolicyAlways
	default:
		return pod.Spec.RestartPolicy
	}
}

// restarts says whether the container runs again after this attempt at it ended.
func (m *member) restarts(a *Attempt) bool {
	if m.role == initStep && a.succeeded() {
		return false
	}
	for _, rule := range m.RestartPolicyRules {
		if rule.Action == v1.ContainerRestartRuleActionRestart && covers(rule.ExitCodes, a.code()) {
			return true
		}
	}
	switch m.policy {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return !a.succeeded()
	default:
		return true
	}
}

// covers says whether a restart rule speaks of this exit code.
func covers(codes *v1.ContainerRestartRuleOnExitCodes, code int32) bool {
	return codes != nil && slices.Contains(codes.Values, code) == (codes.Operator == v1.ContainerRestartRuleOnExitCodesOpIn)
}

// streak is the number of ends in a row without a good run before them, the
// newest included. A success of an init step is what was wanted: what came
// before it is forgotten.
func (m *member) streak() int {
	count := 0
	for _, a := range slices.Backward(m.attempts) {
		if !a.ended() || (m.role == initStep && a.succeeded()) {
			break
		}
		count++
		if a.ran() >= goodRun {
			break
		}
	}
	return count
}

// restartWait is how long the container stays down after its last end; the first
// restart is at once.
func (m *member) restartWait() time.Duration { return restartBackOff.after(m.streak() - 1) }

// restartAt is when the container may be started again; zero when it has not ended.
func (v *view) restartAt(m *member) time.Time {
	last := m.last()
	if last == nil || !last.ended() {
		return time.Time{}
	}
	return v.after(last.endedAt(), m.restartWait())
}
