package volume

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/ptr"
)

var someTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func mustWrite(t *testing.T, dir string, payload Payload, group *int64) bool {
	t.Helper()
	changed, err := write(dir, payload, group, someTime)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestWriteReplacesAllFilesTogether(t *testing.T) {
	dir := t.TempDir()
	steps := []struct {
		payload Payload
		changed bool
	}{
		{Payload{"a": {Data: []byte("1"), Mode: 0o644}, "d/x": {Data: []byte("1"), Mode: 0o644}}, true},
		{Payload{"a": {Data: []byte("1"), Mode: 0o644}, "d/x": {Data: []byte("1"), Mode: 0o644}}, false},
		{Payload{"a": {Data: []byte("2"), Mode: 0o644}, "d/x": {Data: []byte("1"), Mode: 0o644}}, true},
		{Payload{"a": {Data: []byte("2"), Mode: 0o400}, "d/x": {Data: []byte("1"), Mode: 0o644}}, true},
		{Payload{"d/y": {Data: []byte("1"), Mode: 0o644}}, true},
		{Payload{}, true},
		{Payload{}, false},
	}
	for i, step := range steps {
		if changed := mustWrite(t, dir, step.payload, nil); changed != step.changed {
			t.Errorf("step %d: changed %v, want %v", i, changed, step.changed)
		}
		for path, file := range step.payload {
			if got := mustRead(t, filepath.Join(dir, path)); got != string(file.Data) {
				t.Errorf("step %d: %s is %q", i, path, got)
			}
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 2 { // ..data and the folder it names
		t.Errorf("left in the end: %v", left)
	}
}

func TestWriteGoesOnAfterACrash(t *testing.T) {
	dir := t.TempDir()
	payload := Payload{"a": {Data: []byte("1"), Mode: 0o644}}
	mustWrite(t, dir, payload, nil)
	// The agent died after the new link was made, and once before the user's link.
	if err := os.Symlink("..nowhere", filepath.Join(dir, nextLink)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if mustWrite(t, dir, payload, nil) {
		t.Error("the same files count as a change")
	}
	if got := mustRead(t, filepath.Join(dir, "a")); got != "1" {
		t.Errorf("a is %q", got)
	}
	payload["a"] = File{Data: []byte("2"), Mode: 0o644}
	mustWrite(t, dir, payload, nil)
	if got := mustRead(t, filepath.Join(dir, "a")); got != "2" {
		t.Errorf("a is %q", got)
	}
}

func TestWriteRefusesPathsOutOfTheVolume(t *testing.T) {
	for _, path := range []string{"../x", "/x", "a/../../x", "..data/x"} {
		if _, err := write(t.TempDir(), Payload{path: {}}, nil, someTime); err == nil {
			t.Errorf("%s was written", path)
		}
	}
}

func TestAGroupOfThePodsOwnMayRead(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	mustWrite(t, dir, Payload{"d/x": {Data: []byte("1"), Mode: 0o600, Owner: ptr.To[int64](7)}}, ptr.To[int64](5))
	for path, want := range map[string]struct {
		mode     os.FileMode
		uid, gid uint32
	}{
		"d/x": {0o640, 7, 5},
		"d":   {0o755 | os.ModeSetgid | os.ModeDir, 0, 5},
	} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		owner := info.Sys().(*syscall.Stat_t)
		if info.Mode() != want.mode || owner.Uid != want.uid || owner.Gid != want.gid {
			t.Errorf("%s: %v %d:%d, want %v %d:%d", path, info.Mode(), owner.Uid, owner.Gid, want.mode, want.uid, want.gid)
		}
	}
}
