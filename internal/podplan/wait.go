package podplan

import "fmt"

const (
	crashLoopBackOff = "CrashLoopBackOff"
	configError      = "CreateContainerConfigError"
)

// startWait is why a container whose turn it is does not start now; nil when it
// can be started or its image fetched.
func (v *view) startWait(m *member) *wait {
	if at := m.restartAt(); at.After(v.now) {
		return &wait{Reason: crashLoopBackOff, Until: at, Message: fmt.Sprintf(
			"back-off %s restarting failed container=%s pod=%s_%s(%s)",
			kubeDuration(m.restartWait()), m.Name, v.pod.Name, v.pod.Namespace, v.pod.UID)}
	}
	if w := v.imageWait(m); w != nil {
		return w
	}
	failure, failed := v.seen.StartFailures[m.Name]
	if !failed {
		return nil
	}
	retry := startBackOff.after(failure.Count)
	if failure.Reason == configError {
		retry = configRetry
	}
	if at := failure.At.Add(retry); at.After(v.now) {
		return &wait{Reason: failure.Reason, Message: failure.Message, Until: at}
	}
	return nil
}
