package podplan

import (
	"slices"
	"time"

	"muster.dev/muster/internal/reason"
)

// haveSandbox has a sandbox made where none lives, once there are volumes; true
// when one lives. Nothing of a dead sandbox runs on beside a new one, and its
// network is given back before the new one asks for the same ports.
func (d *decider) haveSandbox(volumes bool) bool {
	left := d.leaveOthers()
	if d.sandbox != nil {
		return true
	}
	if left || !volumes {
		return false
	}
	attempt, at := d.nextSandbox()
	if at.After(d.now) {
		d.again(at)
		return false
	}
	run := Action{Verb: RunSandbox, Attempt: attempt}
	if len(d.seen.Sandboxes) > 0 {
		run.Reason, run.Message = "SandboxChanged", "Pod sandbox changed, it will be killed and re-created."
	}
	d.do(run)
	return false
}

// nextSandbox is the number of the sandbox to be made, and when it may be.
func (d *decider) nextSandbox() (attempt int, at time.Time) {
	attempt = d.seen.SandboxAttempts
	if len(d.seen.Sandboxes) > 0 {
		dead := d.seen.Sandboxes[0]
		attempt = max(attempt, dead.Attempt+1)
		at = d.after(dead.CreatedAt, restartBackOff.after(d.youngDeaths(dead, attempt)-1))
	}
	if f := d.seen.SandboxFailure; f != nil {
		d.because(reason.Reason{Code: reason.SandboxFailed, Object: d.pod.Name, Count: f.Count, Detail: f.Message})
		if retry := d.after(f.At, sandboxBackOff.after(f.Count)); retry.After(at) {
			at = retry
		}
	}
	return attempt, at
}

// youngDeaths is the number of sandboxes in a row that died young, the dead one
// included: such are made anew ever more rarely. One in which nothing was ever
// made leaves no other trace than the number of the next.
func (d *decider) youngDeaths(dead Sandbox, next int) int {
	var ids []string
	begun := map[string]time.Time{}
	for _, a := range d.seen.Attempts {
		if _, known := begun[a.SandboxID]; !known {
			ids = append(ids, a.SandboxID)
			begun[a.SandboxID] = a.CreatedAt
		}
	}
	if _, used := begun[dead.ID]; !used {
		return next
	}
	count := 1
	for i := len(ids) - 1; i > 0 && begun[ids[i]].Sub(begun[ids[i-1]]) < goodRun; i-- {
		count++
	}
	return count
}

// leaveOthers ends all that is not in the present sandbox; true while something
// is still to be ended.
func (d *decider) leaveOthers() bool {
	strays := d.strays()
	for _, a := range strays {
		d.stop(a, d.fullGrace(), "Stopping container "+a.Container)
	}
	left := len(strays) > 0 || len(d.unstarted()) > 0
	for i := range d.seen.Sandboxes {
		s := &d.seen.Sandboxes[i]
		if s == d.sandbox || !s.stands() {
			continue
		}
		left = true
		if !slices.ContainsFunc(strays, func(a Attempt) bool { return a.SandboxID == s.ID }) {
			d.do(Action{Verb: StopSandbox, ID: s.ID})
		}
	}
	return left
}

// stands says that the sandbox still holds something on the node: processes or
// its network.
func (s Sandbox) stands() bool {
	return s.Ready || (len(s.IPs) > 0 && !s.Stopped)
}
