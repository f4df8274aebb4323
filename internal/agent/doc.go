// Package agent is the node's half of the cluster: it registers the Node, keeps
// its lease and status, and gives every Pod bound to the node one worker that
// observes, asks podplan.Decide, does what it says and writes podplan.Status.
//
// The package owns the journal (what finished, how often, when termination
// began), the wiring of volumes, probes, images, log links and events, and the
// order in which facts become durable. It holds no rule about what a Pod needs
// next: those are podplan's. It never polls on the path from one init step to the
// next; a slow relist only catches events that were lost.
//
// Killing the process at any moment is safe: containers keep running, and the
// next start rebuilds its knowledge from the runtime, the journal and the API
// (recover.go states what it relies on).
package agent
