package volume

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestWhateverWasThereBeforeTheVolumeShowsThePayload writes one payload after the
// other, files turning into folders and back, and looks at the volume as a
// container does: through the links.
func TestWhateverWasThereBeforeTheVolumeShowsThePayload(t *testing.T) {
	paths := []string{"a", "b", "c/x", "c/y", "d/e/f", "a.d/x"}
	nested := []string{"a/x", "b", "c", "d/e", "d/g"}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "volume-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		for range rapid.IntRange(1, 5).Draw(t, "writes") {
			names := rapid.SampledFrom([][]string{paths, nested}).Draw(t, "names")
			want := map[string]string{}
			payload := Payload{}
			for _, path := range names {
				if content := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, path); content != "" {
					want[path], payload[path] = content, File{Data: []byte(content), Mode: 0o644}
				}
			}
			if _, err := write(dir, payload, nil, someTime); err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(want, visible(t, dir)); difference != "" {
				t.Fatalf("the volume differs from its payload (-want +got):\n%s", difference)
			}
		}
	})
}

// visible reads all files of a volume by the names that containers use.
func visible(t *rapid.T, dir string) map[string]string {
	seen := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name()[0] == '.' {
			continue
		}
		top, err := filepath.EvalSymlinks(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatalf("a link leads nowhere: %v", err)
		}
		err = filepath.WalkDir(top, func(path string, inner fs.DirEntry, err error) error {
			if err != nil || inner.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			below, _ := filepath.Rel(top, path)
			seen[filepath.Join(entry.Name(), below)] = string(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return seen
}
