// Package fake is the runtime seam kept in memory, for simulated nodes and tests.
// It owns what its Script says would have happened: nothing runs, nothing is
// fetched, and no network exists. Log files are the one thing it may write.
//
// An instance with nothing due costs no goroutine and no timer, so that thousands
// fit in one process. It must pass the suite in runtimetest, as cri must.
package fake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"muster.dev/muster/internal/runtime"
)

// Options make one simulated runtime.
type Options struct {
	// Name, the node's as a rule, keeps the IDs of many runtimes apart.
	Name string
	// Clock is the time it lives by; default the real one. With a clock that is
	// stepped, calls with a delay wait for a step.
	Clock clock.WithDelayedExecution
	// Script is how everything behaves.
	Script Script
	// PodCIDR is where Pod addresses come from; default 10.64.0.0/16.
	PodCIDR netip.Prefix
	// Logs makes containers write their log files, in CRI's format, below the log
	// directory of their sandbox.
	Logs bool
}

// Runtime is a runtime.Runtime in memory. Its hooks (Kill, LoseSandbox, Disconnect,
// AddImage) let a test do what happens behind an agent's back.
type Runtime struct {
	options Options
	clock   clock.WithDelayedExecution

	mu          sync.Mutex
	script      Script
	down        bool
	idPrefix    string
	nextID      uint64
	sandboxes   map[string]*sandbox
	containers  map[string]*container
	images      map[string]*runtime.Image // by every name and ID
	pulls       map[string]int
	addresses   addresses
	subscribers map[*subscriber]struct{}
	timers      timers
}

var _ runtime.Runtime = (*Runtime)(nil)

// New makes an empty runtime.
func New(options Options) *Runtime {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if !options.PodCIDR.IsValid() {
		options.PodCIDR = netip.MustParsePrefix("10.64.0.0/16")
	}
	r := &Runtime{
		options:     options,
		clock:       options.Clock,
		script:      options.Script,
		idPrefix:    idPrefix(options.Name),
		sandboxes:   make(map[string]*sandbox),
		containers:  make(map[string]*container),
		images:      make(map[string]*runtime.Image),
		pulls:       make(map[string]int),
		addresses:   newAddresses(options.PodCIDR),
		subscribers: make(map[*subscriber]struct{}),
	}
	// A clock that is stepped calls with its own lock held, and takes that lock when
	// asked for the time: so not from inside its call.
	r.timers = timers{clock: options.Clock, fire: func() { go r.fire() }}
	return r
}

func (r *Runtime) fire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timers.due()
}

// enter begins a call: it takes the lock unless the call cannot be made. The
// caller unlocks when the error is nil.
func (r *Runtime) enter(ctx context.Context, doing string) error {
	if err := contextError(ctx); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	r.mu.Lock()
	if r.down {
		r.mu.Unlock()
		return fmt.Errorf("%s: %w", doing, runtime.ErrUnreachable)
	}
	return nil
}

// contextError is how ctx ended, nil while it has not.
func contextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return runtime.WithKind(ctx.Err(), runtime.ErrTimedOut)
	}
	return ctx.Err()
}

// wait lets simulated time pass inside a call, without the lock.
func (r *Runtime) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return contextError(ctx)
	}
	timer := r.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return contextError(ctx)
	case <-timer.C():
		return nil
	}
}

// idPrefix is the part that all IDs of a runtime begin with, so that those of one
// runtime sort in the order of their making.
func idPrefix(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:24])
}

func (r *Runtime) newIDLocked() string {
	r.nextID++
	return fmt.Sprintf("%s%016x", r.idPrefix, r.nextID)
}

// Info says what the runtime is.
func (r *Runtime) Info(ctx context.Context) (runtime.Info, error) {
	if err := r.enter(ctx, "asking the runtime's version"); err != nil {
		return runtime.Info{}, err
	}
	defer r.mu.Unlock()
	return runtime.Info{Name: "fake", Version: "v1", APIVersion: "v1"}, nil
}

// Status says that everything is ready while the runtime is connected.
func (r *Runtime) Status(ctx context.Context) (runtime.Status, error) {
	if err := r.enter(ctx, "asking the runtime's status"); err != nil {
		return runtime.Status{}, err
	}
	defer r.mu.Unlock()
	return runtime.Status{RuntimeReady: true, NetworkReady: true, Handlers: []string{""}, CgroupDriver: "cgroupfs"}, nil
}

// ReopenLog makes a new log file where the old one was moved away.
func (r *Runtime) ReopenLog(ctx context.Context, id string) error {
	if err := r.enter(ctx, "reopening a log"); err != nil {
		return err
	}
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok || c.state != runtime.Running {
		return fmt.Errorf("reopening the log of container %s: %w", id, runtime.ErrNotFound)
	}
	return writeLog(c.logPath(r.logDirectory(c.sandbox.config)), r.clock.Now(), nil)
}

// Stats is the present use of every running container, by its Run.
func (r *Runtime) Stats(ctx context.Context) (map[string]runtime.Stats, error) {
	if err := r.enter(ctx, "reading container statistics"); err != nil {
		return nil, err
	}
	defer r.mu.Unlock()
	now := r.clock.Now()
	stats := make(map[string]runtime.Stats)
	for id, c := range r.containers {
		if c.state == runtime.Running {
			stats[id] = runtime.Stats{
				At:         now,
				CPUNanos:   uint64(now.Sub(c.startedAt)) / 1000 * uint64(c.run.MilliCPU),
				WorkingSet: c.run.MemoryBytes,
				RSS:        c.run.MemoryBytes,
			}
		}
	}
	return stats, nil
}

// logDirectory is where a sandbox's containers write, empty when nothing is to be written.
func (r *Runtime) logDirectory(config *cri.PodSandboxConfig) string {
	if !r.options.Logs {
		return ""
	}
	return config.GetLogDirectory()
}
