// Package coverage holds the matrix at the heart of muster: rows are nodes,
// columns are daemons, and a cell says whether the daemon is wanted on the node,
// why, and which Pods are there. It decides who is eligible (Judge), keeps the
// matrix up to date one row, column or cell at a time (Matrix), and reads it out
// by pool with a reason for every hole (Matrix.Report).
//
// The package never looks at a clock or the API, and never says what to do about
// a hole; that is daemonset's. Nodes, sets and Pods handed to it are shared with
// their owner and are only read. A twin in the tests works everything out anew
// after every step of random histories.
package coverage
