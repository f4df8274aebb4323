// Package runtimetest holds what every runtime.Runtime is tested with: Suite, the
// behaviour both kinds must show, and StartContainerd, a containerd of a test's
// own, which other rooms' tests use too.
//
// It is imported by tests only.
package runtimetest
