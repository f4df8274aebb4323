package podplan

import "time"

// backOff is a wait that doubles from first to last.
type backOff struct{ first, last time.Duration }

var (
	restartBackOff = backOff{10 * time.Second, 300 * time.Second}
	imageBackOff   = backOff{10 * time.Second, 300 * time.Second}
	startBackOff   = backOff{10 * time.Second, 300 * time.Second}
	// sandboxBackOff is short, because what a sandbox most often waits for is the
	// network, which may itself come from a daemon that is just starting.
	sandboxBackOff = backOff{time.Second, 60 * time.Second}
)

// goodRun is how long a container must have run for its earlier failures to be
// forgotten.
const goodRun = 10 * time.Minute

// configRetry is the constant wait after a configuration error: another object,
// such as a missing config map, mends it at any moment.
const configRetry = 10 * time.Second

// after is the wait after count failures in a row.
func (b backOff) after(count int) time.Duration {
	if count <= 0 {
		return 0
	}
	wait := b.first
	for range count - 1 {
		if wait *= 2; wait >= b.last {
			return b.last
		}
	}
	return wait
}
