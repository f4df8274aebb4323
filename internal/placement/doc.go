// Package placement decides whether a Pod fits on a node and on which node a
// Pod goes.
//
// A Ledger holds every node's NodeRoom: the node, the Pods that hold room on it
// (bound ones, and those decided but not yet seen) and the totals they take.
// A Request is a Pod made ready to be held against many rooms. Fits answers for
// one node with every filter that says no; Decide looks at all nodes and picks
// the best one, or says how many nodes failed on what, in the scheduler's words.
//
// A Pod holds its room from the decision until it has ended (Succeeded, Failed)
// or is gone from the API; a terminating Pod still holds it.
//
// The package never reads the API, never binds and never evicts. Its filters
// look at a room as it is handed to them, so that a room without some of its
// Pods can be asked in the same way. The tests beside it hold each filter
// against a table and the whole against a slow twin without any index.
package placement
