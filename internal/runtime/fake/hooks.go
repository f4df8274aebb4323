package fake

import "muster.dev/muster/internal/runtime"

// Kill ends a running container behind the agent's back; reason is "Completed" or
// "Error" when empty. It does nothing to one that does not run.
func (r *Runtime) Kill(containerID string, exitCode int32, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.containers[containerID]; ok {
		r.endLocked(c, exitCode, reason)
	}
}

// LoseSandbox ends a sandbox and its containers behind the agent's back.
func (r *Runtime) LoseSandbox(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.sandboxes[id]; ok {
		r.stopSandboxLocked(s)
	}
}

// Disconnect makes every call fail as unreachable and announces nothing, while
// containers go on, until Connect.
func (r *Runtime) Disconnect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = true
}

// Connect ends a Disconnect and announces that anything may have changed.
func (r *Runtime) Connect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.down {
		return
	}
	r.down = false
	for s := range r.subscribers {
		s.send(runtime.Event{At: r.clock.Now()})
	}
}

// SetScript changes how everything behaves from the next call on.
func (r *Runtime) SetScript(script Script) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.script = script
}
