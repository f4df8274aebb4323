package podplan

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// ending is why a Pod stops and the one grace period all its containers share.
type ending struct {
	since time.Time
	grace time.Duration
	// phase, reason and message are the status it ends in; an empty phase is worked
	// out from the containers.
	phase   v1.PodPhase
	reason  string
	message string
}

const (
	deadlineExceeded = "DeadlineExceeded"
	deadlineMessage  = "Pod was active on the node longer than the specified deadline"
)

// left is what a container that is stopped now has of the grace period.
func (e *ending) left(now time.Time) time.Duration {
	return max(min(e.since.Add(e.grace).Sub(now), e.grace), leastGrace)
}

// whyEnding is the Pod's ending; nil while it goes on. A deletion takes over the
// timing, and what had made the Pod end stays in its status.
func (v *view) whyEnding() *ending {
	own, asked := v.ownEnding(), v.askedEnding()
	if own == nil || asked == nil {
		if own == nil {
			return asked
		}
		return own
	}
	if asked.phase == "" {
		asked.phase, asked.reason, asked.message = own.phase, own.reason, own.message
	}
	return asked
}

// askedEnding is the ending that the API or the agent asks for.
func (v *view) askedEnding() *ending {
	if t := v.seen.Terminating; t != nil {
		e := &ending{since: t.Since, grace: t.Grace}
		if t.Why != "" {
			e.phase, e.reason, e.message = v1.PodFailed, t.Why, t.Message
		}
		return e
	}
	if v.seen.Removed || v.pod.DeletionTimestamp != nil {
		return &ending{since: v.now, grace: v.specGrace()}
	}
	return nil
}

// ownEnding is the ending that lies in the Pod itself.
func (v *view) ownEnding() *ending {
	e := &ending{since: v.now, grace: v.specGrace(), phase: v1.PodFailed}
	if phase := v.pod.Status.Phase; phase == v1.PodFailed || phase == v1.PodSucceeded {
		e.phase, e.reason, e.message = phase, v.pod.Status.Reason, v.pod.Status.Message
		return e
	}
	if r := v.seen.Rejected; r != nil {
		e.reason, e.message = string(r.Code), "Pod was rejected: "+r.Text()
		return e
	}
	over, at := v.over()
	if due := v.deadline(); !due.IsZero() && !v.now.Before(due) && (!over || at.After(due)) {
		e.since, e.reason, e.message = due, deadlineExceeded, deadlineMessage
		return e
	}
	if !over {
		return nil
	}
	if v.failedStep() == nil {
		e.phase = v.appsPhase()
	}
	return e
}

// over says that the Pod's work has ended, well or badly, and when it did. What
// ended only after the Pod's deadline was stopped because of it.
func (v *view) over() (over bool, at time.Time) {
	if m := v.failedStep(); m != nil {
		return true, m.last().endedAt()
	}
	for _, m := range v.apps {
		if !v.final(m) {
			return false, time.Time{}
		}
		if last := m.last(); last != nil && last.endedAt().After(at) {
			at = last.endedAt()
		}
	}
	return true, at
}

// appsPhase is the phase of a Pod that ended, by how its app containers ended.
func (v *view) appsPhase() v1.PodPhase {
	for _, m := range v.apps {
		if last := m.last(); last == nil || !last.succeeded() {
			return v1.PodFailed
		}
	}
	return v1.PodSucceeded
}

// deadline is when activeDeadlineSeconds are over; zero when there are none.
func (v *view) deadline() time.Time {
	if v.pod.Spec.ActiveDeadlineSeconds == nil || v.pod.Status.StartTime == nil {
		return time.Time{}
	}
	return v.pod.Status.StartTime.Add(time.Duration(*v.pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

func (v *view) specGrace() time.Duration {
	if s := v.pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return v1.DefaultTerminationGracePeriodSeconds * time.Second
}

// terminal says that nothing of the Pod runs and nothing will.
func (v *view) terminal() bool {
	return v.ending != nil && len(v.unstarted()) == 0 &&
		!slices.ContainsFunc(v.seen.Attempts, Attempt.live) && !slices.ContainsFunc(v.seen.Sandboxes, Sandbox.stands)
}
