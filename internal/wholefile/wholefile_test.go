package wholefile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWriteReplacesAndLeavesNothingBeside(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "key")
	if err := os.WriteFile(name+".new", []byte("what a killed writer left, longer than the rest"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "2"} {
		if err := Write(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil || string(got) != text {
			t.Errorf("it holds %q, %v, want %q", got, err, text)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v, want the file alone", entries, err)
	}
	if err := SyncDir(dir); err != nil {
		t.Error(err)
	}
}

// TestAWriteThatFailsLeavesTheOld: the new content cannot take the name's place.
func TestAWriteThatFailsLeavesTheOld(t *testing.T) {
	taken := t.TempDir()
	if err := os.WriteFile(filepath.Join(taken, "inside"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(taken, []byte("x"), 0o600); err == nil {
		t.Error("a file took the place of a directory")
	}
	if _, err := os.Stat(filepath.Join(taken, "inside")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(taken + ".new"); err == nil {
		t.Error("what could not be put in place is left")
	}
}
