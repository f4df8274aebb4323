// Package cri is the runtime seam over CRI: containerd 1.6 and later, or CRI-O,
// on a unix socket. It owns the connection, the time limit of every call, the
// translation of the runtime's errors, and the stream of events.
//
// It never retries a call, keeps no state of Pods and decides nothing. The suite
// in runtimetest runs against a private containerd; what that one containerd
// cannot show (other versions, broken connections) is tested against a small
// in-memory CRI server here.
package cri
