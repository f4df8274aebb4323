package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

func TestBurstsGoAllAtOnceUntilAnError(t *testing.T) {
	refused := errors.New("refused")
	for _, row := range []struct {
		name  string
		slow  bool
		fails func(i int) bool
		// least and most are how many of a hundred are tried.
		least, most int
		err         error
		slowAfter   bool
	}{
		{name: "no error", fails: func(int) bool { return false }, least: 100, most: 100},
		{name: "one error is walked around and told", fails: func(i int) bool { return i == 40 }, least: 100, most: 100, err: refused, slowAfter: true},
		{name: "the very last one's error is told too", fails: func(i int) bool { return i == 99 }, least: 100, most: 100, err: refused, slowAfter: true},
		{name: "a closed door", fails: func(int) bool { return true }, least: 2, most: together + 3, err: refused, slowAfter: true},
		{name: "a door that was closed before is tried once", slow: true, fails: func(int) bool { return true }, least: 1, most: 1, err: refused, slowAfter: true},
		{name: "a door that was closed before and is open", slow: true, fails: func(int) bool { return false }, least: 100, most: 100},
		{name: "while slow, one error ends it", slow: true, fails: func(i int) bool { return i == 5 }, least: 6, most: 7, err: refused, slowAfter: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := &pace{slow: row.slow}
			var mu sync.Mutex
			var tried []int
			err := p.burst(t.Context(), 100, func(_ context.Context, i int) error {
				mu.Lock()
				defer mu.Unlock()
				tried = append(tried, i)
				if row.fails(i) {
					return refused
				}
				return nil
			})
			if !errors.Is(err, row.err) || p.slow != row.slowAfter {
				t.Errorf("error %v and slow %v, should be %v and %v", err, p.slow, row.err, row.slowAfter)
			}
			if n := len(tried); n < row.least || n > row.most {
				t.Errorf("%d were tried, should be %d to %d", n, row.least, row.most)
			}
			if before := p.slow; p.burst(t.Context(), 0, nil) != nil || p.slow != before {
				t.Error("a burst of nothing changes the pace")
			}
			slices.Sort(tried)
			if len(slices.Compact(slices.Clone(tried))) != len(tried) {
				t.Errorf("something was done twice: %v", tried)
			}
		})
	}
}
