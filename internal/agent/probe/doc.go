// Package probe runs the probes of running containers: exec, HTTP, TCP and gRPC;
// startup, readiness and liveness, with their delays, periods, time-outs and
// thresholds. It says what the probes found; what follows from that (restart, not
// Ready) is decided in podplan.
//
// One Manager owns every goroutine and waits for them when it is closed. Verdicts
// belong to one run of a container: a new container ID begins anew.
package probe
