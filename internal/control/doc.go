// Package control owns muster's own loops: one that keeps daemons on their
// nodes, one that places unbound Pods, one that follows the life of nodes, one
// that collects Pods left behind. Each loop is a screenful: take a snapshot, let a
// pure room decide, apply what it decided, come back at the soonest deadline.
//
// The package decides nothing itself, and runs none of Kubernetes' stock
// controllers; those are in control/stock.
package control
