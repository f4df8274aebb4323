// Package cli is muster's command line: verbs, tables and JSON. It parses, asks
// the rooms and prints; the answer goes to stdout and everything else to stderr.
// It never decides what a cluster does.
package cli
