// Package cluster is the only door between the world and the pure rooms: it
// keeps the coverage matrix up to date from the API's news and its own writes,
// hands out snapshots to decide on, and carries plans out. Every delete it sends
// names the UID it was decided on, and a write's answer enters the matrix before
// the next decision, so that a cache that lags never causes a second write.
//
// The package decides nothing: which Pods to create or delete is daemonset's to
// say, whom to wake is control's.
package cluster
