package probe

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/podplan"
)

// watch is the probing of one run of one container. state is guarded by the
// Manager's mu.
type watch struct {
	manager   *Manager
	pod       *v1.Pod
	container *v1.Container
	target    Target
	cancel    context.CancelFunc
	state     podplan.ProbeState
}

// begin starts probing one run of a container. The caller holds mu.
func (m *Manager) begin(pod *v1.Pod, container *v1.Container, target Target) *watch {
	ctx, cancel := context.WithCancel(m.ctx)
	w := &watch{manager: m, pod: pod, container: container, target: target, cancel: cancel}
	started := target.Started || container.StartupProbe == nil
	w.state = podplan.ProbeState{
		ContainerID: target.ContainerID,
		Started:     started,
		Ready:       started && (target.Ready || container.ReadinessProbe == nil),
	}
	if started {
		w.beginMain(ctx)
	} else {
		w.run(ctx, startup, container.StartupProbe)
	}
	return w
}

// beginMain starts the probes that wait for the startup probe.
func (w *watch) beginMain(ctx context.Context) {
	if w.container.ReadinessProbe != nil {
		w.run(ctx, readiness, w.container.ReadinessProbe)
	}
	if w.container.LivenessProbe != nil {
		w.run(ctx, liveness, w.container.LivenessProbe)
	}
}

// run probes in a goroutine of its own until the verdict is final or ctx ends.
func (w *watch) run(ctx context.Context, kind kind, probe *v1.Probe) {
	w.manager.running.Go(func() {
		tally := tally{settings: settingsOf(probe)}
		timer := time.NewTimer(time.Until(w.target.StartedAt.Add(tally.settings.delay)))
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
				timer.Reset(tally.settings.period)
			}
			if final := w.once(ctx, kind, probe, &tally); final {
				return
			}
		}
	})
}

// once runs a probe one time and says whether no more is needed. A probe that could
// not be carried out says nothing about the container and does not count.
func (w *watch) once(ctx context.Context, kind kind, probe *v1.Probe, tally *tally) (final bool) {
	result, err := w.handle(ctx, probe, tally.settings.timeout)
	if ctx.Err() != nil {
		return true
	}
	if err != nil {
		w.unhealthy(fmt.Sprintf("%s probe errored and resulted in unknown state: %s", kind.title(), err))
		return false
	}
	if !result.ok {
		w.unhealthy(fmt.Sprintf("%s probe failed: %s", kind.title(), result.output))
	}
	if !tally.add(result.ok) {
		return false
	}
	return w.decide(ctx, kind, probe, result)
}

// decide makes an outcome that reached its threshold the container's state.
func (w *watch) decide(ctx context.Context, kind kind, probe *v1.Probe, result result) (final bool) {
	w.manager.mu.Lock()
	if ctx.Err() != nil {
		w.manager.mu.Unlock()
		return true
	}
	before := w.state
	switch {
	case kind == readiness:
		w.state.Ready = result.ok
	case !result.ok:
		w.state.Failed = &podplan.ProbeFailure{Kind: string(kind), Message: result.output, Grace: grace(probe)}
		final = true
	case kind == startup:
		w.state.Started = true
		w.state.Ready = w.container.ReadinessProbe == nil
		w.beginMain(ctx)
		final = true
	}
	changed := w.state != before
	w.manager.mu.Unlock()
	if changed && w.manager.options.Changed != nil {
		w.manager.options.Changed(w.pod.UID)
	}
	return final
}

func (w *watch) unhealthy(message string) {
	if w.manager.options.Unhealthy != nil {
		w.manager.options.Unhealthy(w.pod, w.container.Name, message)
	}
}

// grace is how long a container that failed this probe has to end; nil leaves it
// to the Pod's grace period.
func grace(probe *v1.Probe) *time.Duration {
	if probe.TerminationGracePeriodSeconds == nil {
		return nil
	}
	grace := time.Duration(*probe.TerminationGracePeriodSeconds) * time.Second
	return &grace
}
