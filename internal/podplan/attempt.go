package podplan

import "time"

// live says that the attempt may have processes: it runs, or the runtime cannot
// say that it does not.
func (a Attempt) live() bool {
	return !a.Gone && (a.State == RunRunning || a.State == RunUnknown)
}

// ended says that the attempt will never run again.
func (a Attempt) ended() bool { return a.State == RunExited || a.Gone }

func (a Attempt) succeeded() bool { return a.State == RunExited && a.ExitCode == 0 }

// lostExitCode stands for the exit code of an attempt whose end nobody saw.
const lostExitCode = 137

// code is the attempt's exit code; only for one that has ended.
func (a Attempt) code() int32 {
	if a.State != RunExited {
		return lostExitCode
	}
	return a.ExitCode
}

// endedAt is when the attempt ended; where nobody saw its end, the last moment
// it was known to exist.
func (a Attempt) endedAt() time.Time {
	switch {
	case !a.FinishedAt.IsZero():
		return a.FinishedAt
	case !a.StartedAt.IsZero():
		return a.StartedAt
	default:
		return a.CreatedAt
	}
}

// ran is how long the attempt was running.
func (a Attempt) ran() time.Duration {
	if a.StartedAt.IsZero() {
		return 0
	}
	return a.endedAt().Sub(a.StartedAt)
}
