// Package podplan decides what to do next for one Pod on its node: which init
// step, sidecar or app container to start, stop, restart or wait for, and what
// the Pod's status is. Decide and Status are pure functions of the Pod, what was
// observed and the present time; this is the only place that knows these rules.
//
// The package never touches the runtime, the API, the clock or a goroutine; the
// agent does what it decides and observes again. It remembers nothing: progress,
// restart counts and back-off follow from the recorded attempts alone, so that an
// agent that was killed goes on where it was.
//
// A reader who starts with decide.go meets the rules in their order: order.go
// says whose turn it is, restart.go and backoff.go whether and when a container
// runs again, image.go and wait.go what a start still waits for, sandbox.go and
// tidy.go what becomes of old sandboxes and containers, ending.go and terminate.go
// how a Pod stops. status.go, containerstatus.go and conditions.go say all this in
// the API's words.
//
// Beside tables for each rule, a model world (world_test.go) lets random
// misfortune befall a Pod and holds every decision against the safety rules and a
// slow, obvious twin.
package podplan
