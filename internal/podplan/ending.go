package podplan

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// ending is why a Pod stops and the one grace period all its containers share.
type ending struct {
	since    time.Time
	grace    time.Duration
	deletion bool // the API object goes too
	phase    v1.PodPhase
	reason   string
	message  string
}

const (
	deadlineExceeded = "DeadlineExceeded"
	deadlineMessage  = "Pod was active on the node longer than the specified deadline"
)

func (v *view) whyEnding() *ending {
	e := v.ownEnding()
	deleted := v.deletion()
	if deleted == nil {
		return e
	}
	if e != nil { // what made it end stays in the status
		deleted.phase, deleted.reason, deleted.message = e.phase, e.reason, e.message
	}
	return deleted
}

// deletion is the ending that the API or the agent asks for.
func (v *view) deletion() *ending {
	if t := v.seen.Terminating; t != nil {
		e := &ending{since: t.Since, grace: t.Grace, deletion: t.Why == "" || v.seen.Removed || v.pod.DeletionTimestamp != nil}
		if t.Why != "" {
			e.phase, e.reason, e.message = v1.PodFailed, t.Why, t.Message
		}
		return e
	}
	if v.seen.Removed || v.pod.DeletionTimestamp != nil {
		return &ending{since: v.now, grace: v.specGrace(), deletion: true}
	}
	return nil
}

// ownEnding is the ending that lies in the Pod itself.
func (v *view) ownEnding() *ending {
	if v.seen.Rejected != nil {
		return &ending{since: v.now, grace: v.specGrace(), phase: v1.PodFailed,
			reason: string(v.seen.Rejected.Code), message: "Pod was rejected: " + v.seen.Rejected.Text()}
	}
	if phase := v.pod.Status.Phase; phase == v1.PodFailed || phase == v1.PodSucceeded {
		return &ending{since: v.lastEnd(), grace: v.specGrace(), phase: phase,
			reason: v.pod.Status.Reason, message: v.pod.Status.Message}
	}
	over := v.over()
	if over == nil {
		if due := v.deadline(); !due.IsZero() && !v.now.Before(due) {
			return &ending{since: due, grace: v.specGrace(), phase: v1.PodFailed, reason: deadlineExceeded, message: deadlineMessage}
		}
	}
	return over
}

// over is the ending of a Pod whose work is done; nil while it is not.
func (v *view) over() *ending {
	e := &ending{since: v.lastEnd(), grace: v.specGrace(), phase: v1.PodFailed}
	if v.failedStep() != nil {
		return e
	}
	failed := false
	for _, m := range v.apps {
		if !v.final(m) {
			return nil
		}
		last := m.last()
		failed = failed || last == nil || !last.succeeded()
	}
	if !failed {
		e.phase = v1.PodSucceeded
	}
	return e
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

// lastEnd is when an init step or app container last ended: from then on a Pod
// that is over has its grace period.
func (v *view) lastEnd() time.Time {
	var last time.Time
	for _, m := range v.members() {
		if a := m.last(); m.kind != sidecar && a != nil && a.ended() && a.endedAt().After(last) {
			last = a.endedAt()
		}
	}
	if last.IsZero() {
		return v.now
	}
	return last
}

// terminal says that nothing of the Pod runs and nothing will.
func (v *view) terminal() bool {
	return v.ending != nil && !slices.ContainsFunc(v.seen.Attempts, Attempt.live) &&
		!slices.ContainsFunc(v.seen.Sandboxes, func(s Sandbox) bool { return s.Ready })
}
