// Package podplan decides what to do next for one Pod on its node: which init
// step, sidecar or app container to start, stop, restart or wait for, and what
// the Pod's status is. Decide and Status are pure functions of the Pod, what was
// observed and the present time; this is the only place that knows these rules.
//
// The package never touches the runtime, the API, the clock or a goroutine; the
// agent does what it decides and observes again.
package podplan
