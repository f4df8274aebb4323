package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A cgroup tree is a tree of folders; that of this test is made of plain files.
func TestWhatStandsBelow(t *testing.T) {
	top := t.TempDir()
	inner := filepath.Join(top, "pod", "container")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	for folder, pids := range map[string]string{top: "7\n", inner: "0\n8\n9\n"} {
		if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(pids), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	folders, err := Folders(top)
	if want := []string{top, filepath.Dir(inner), inner}; err != nil || !slices.Equal(folders, want) {
		t.Errorf("Folders() = %v, %v, want %v", folders, err, want)
	}
	pids, err := Processes(top)
	if want := []int{7, 8, 9}; err != nil || !slices.Equal(pids, want) {
		t.Errorf("Processes() = %v, %v, want %v", pids, err, want)
	}
	if pids, err := Processes(filepath.Join(top, "gone")); err != nil || len(pids) != 0 {
		t.Errorf("of one that is gone: %v, %v", pids, err)
	}
}

func TestAnErrorComesWithWhatWasFound(t *testing.T) {
	top := t.TempDir()
	if err := os.MkdirAll(filepath.Join(top, "odd", "cgroup.procs"), 0o755); err != nil { // cannot be read as a file
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(top, "cgroup.procs"), []byte("7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	pids, err := Processes(top)
	if err == nil || !slices.Equal(pids, []int{7}) {
		t.Errorf("Processes() = %v, %v, want 7 and an error", pids, err)
	}
}
