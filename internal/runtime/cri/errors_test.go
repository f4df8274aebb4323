package cri_test

import (
	"errors"
	"testing"
)

// assertKind checks that err is of one kind, and of none of the others.
func assertKind(t *testing.T, err, want error, others ...error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
	}
	for _, other := range others {
		if other != want && errors.Is(err, other) {
			t.Errorf("error %v is also %v", err, other)
		}
	}
}
