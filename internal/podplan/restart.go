package podplan

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// effectivePolicy is the container's own restart policy, else the Pod's.
func effectivePolicy(pod *v1.Pod, c *v1.Container) v1.RestartPolicy {
	if c.RestartPolicy != nil {
		return v1.RestartPolicy(*c.RestartPolicy)
	}
	if pod.Spec.RestartPolicy == "" {
		return v1.RestartPolicyAlways
	}
	return pod.Spec.RestartPolicy
}

// restarts says whether the container runs again after this attempt of it ended.
func (m *member) restarts(a *Attempt) bool {
	if m.kind == sidecar {
		return true
	}
	if m.kind == initStep && a.succeeded() {
		return false
	}
	for _, rule := range m.RestartPolicyRules {
		if rule.Action == v1.ContainerRestartRuleActionRestart && matches(rule.ExitCodes, exitCode(a)) {
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

func matches(codes *v1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if codes == nil {
		return false
	}
	listed := slices.Contains(codes.Values, code)
	return listed == (codes.Operator == v1.ContainerRestartRuleOnExitCodesOpIn)
}

// lostExitCode stands for the exit code of an attempt whose end nobody saw.
const lostExitCode = 137

func exitCode(a *Attempt) int32 {
	if a.State != RunExited {
		return lostExitCode
	}
	return a.ExitCode
}

// streak is the number of ends in a row without a good run before them, the
// newest included. A success of an init step ends the row: it is what was wanted.
func (m *member) streak() int {
	count := 0
	for _, a := range slices.Backward(m.attempts) {
		if !a.ended() || (m.kind == initStep && a.succeeded()) {
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

// restartAt is when the container may be started again; zero if it never ended.
func (m *member) restartAt() time.Time {
	last := m.last()
	if last == nil || !last.ended() {
		return time.Time{}
	}
	return last.endedAt().Add(m.restartWait())
}

// final says that an app container has run for the last time.
func (v *view) final(m *member) bool {
	last := m.last()
	if last == nil || !last.ended() {
		// Where a Pod that never restarts lost its sandbox, what had not started is
		// lost too.
		return last == nil && m.policy == v1.RestartPolicyNever && v.sandbox == nil && v.lostAfterApps()
	}
	return !m.restarts(last)
}

// failedStep is an init step that ended in failure and is not tried again.
func (v *view) failedStep() *member {
	if v.initialized() {
		return nil
	}
	for _, m := range v.inits {
		last := m.last()
		if m.kind == initStep && last != nil && last.ended() && !last.succeeded() && !m.restarts(last) {
			return m
		}
	}
	return nil
}
