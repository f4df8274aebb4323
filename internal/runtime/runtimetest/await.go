package runtimetest

import (
	"testing"
	"time"

	"muster.dev/muster/internal/runtime"
)

// patience is how long anything is waited for before the test fails.
const patience = 20 * time.Second

// Await waits until seen is true, and fails the test with what was seen last when
// it is not in time.
func Await(t testing.TB, what string, seen func() (ok bool, last string)) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		ok, last := seen()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waiting for %s: last seen: %s", what, last)
		}
	}
}

// next is the next event; the test fails when none comes.
func next(t testing.TB, events <-chan runtime.Event) runtime.Event {
	t.Helper()
	select {
	case event, open := <-events:
		if !open {
			t.Fatal("the channel of events closed")
		}
		return event
	case <-time.After(patience):
		t.Fatal("no event came")
	}
	return runtime.Event{}
}
