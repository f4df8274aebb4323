// Package up puts one machine's cluster together: the host's containerd, the
// store, the API server, the control loops and the node agent, started in order
// and stopped in reverse. It owns the data directory's layout and its lock.
//
// It decides nothing about nodes, daemons or Pods: every room it starts does its
// own work and reports its own health.
package up
