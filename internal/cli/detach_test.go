package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOnlyTheNewRunsWordsAreShown: what an earlier run left in the log is not why
// this one ended.
func TestOnlyTheNewRunsWordsAreShown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte("old\nnew 1\nnew 2\nnew 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		from  int64
		count int
		want  string
	}{
		{4, 15, "new 1\nnew 2\nnew 3"},
		{4, 2, "new 2\nnew 3"},
		{22, 15, ""},
		{100, 15, ""}, // somebody emptied it
	} {
		if got := (logPart{file, row.from}).last(row.count); got != row.want {
			t.Errorf("%+v: %q", row, got)
		}
	}
}
