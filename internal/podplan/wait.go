package podplan

import (
	"fmt"
	"time"

	"muster.dev/muster/internal/reason"
)

const (
	crashLoopBackOff = "CrashLoopBackOff"
	configError      = "CreateContainerConfigError"
)

// wait is why a container is not started now, in the words of a waiting state.
type wait struct {
	Reason  string
	Message string
	// Until is when to look again; zero: only on news.
	Until time.Time
}

func (w *wait) reason(container string) reason.Reason {
	return reason.Reason{Code: reason.ContainerWaiting, Object: container, Detail: w.Reason + ": " + w.Message}
}

// startWait is why a container whose turn it is does not start now; nil when it
// can be started or its image fetched.
func (v *view) startWait(m *member) *wait {
	if at := v.restartAt(m); at.After(v.now) {
		return &wait{Reason: crashLoopBackOff, Until: at, Message: fmt.Sprintf(
			"back-off %s restarting failed container=%s pod=%s_%s(%s)",
			m.restartWait(), m.Name, v.pod.Name, v.pod.Namespace, v.pod.UID)}
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
	if at := v.after(failure.At, retry); at.After(v.now) {
		return &wait{Reason: failure.Reason, Message: failure.Message, Until: at}
	}
	return nil
}
