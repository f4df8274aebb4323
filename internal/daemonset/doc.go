// Package daemonset decides what to do about one daemon: from its column of the
// coverage matrix to a Plan of Pods to create, delete, adopt or release, of
// revisions to keep, and the status to show, within the budget of the update
// strategy. Decide is a pure function of that column, the set's revisions and
// past failures, and the present time.
//
// It judges no node (coverage does), finds no room on one (Fits is handed in by
// whoever has placement), and writes nothing; cluster carries its plans out. A plan
// names every Pod it deletes by UID and gives every Pod it creates a name that a
// second plan would give again, so that repeating one is harmless.
package daemonset
