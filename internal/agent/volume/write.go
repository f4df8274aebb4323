package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The layout that makes an update visible all at once: the files stand in a
// folder with a name of its own, the link ..data names the folder that counts, and
// what containers open are links through ..data. Replacing ..data is one rename.
const (
	dataLink = "..data"
	nextLink = "..data_tmp"
)

// write makes payload the content of the volume at dir and reports whether that
// changed anything. group, when set, may read the files.
func write(dir string, payload Payload, group *int64, now time.Time) (changed bool, err error) {
	for path := range payload {
		if !filepath.IsLocal(path) || strings.HasPrefix(path, "..") {
			return false, fmt.Errorf("writing %q: the path leaves the volume", path)
		}
	}
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("reading the volume's link: %w", err)
	}
	if old != "" && same(filepath.Join(dir, old), payload, group) {
		return false, link(dir, payload)
	}
	fresh, err := os.MkdirTemp(dir, now.UTC().Format("..2006_01_02_15_04_05."))
	if err != nil {
		return false, fmt.Errorf("making a folder for the volume's files: %w", err)
	}
	if err := fill(fresh, payload, group); err != nil {
		return false, errors.Join(err, os.RemoveAll(fresh))
	}
	if err := swap(dir, filepath.Base(fresh)); err != nil {
		return false, err
	}
	if err := link(dir, payload); err != nil {
		return true, err
	}
	return true, sweep(dir, filepath.Base(fresh), payload)
}

// fill writes the files into a new folder.
func fill(dir string, payload Payload, group *int64) error {
	if err := own(dir, 0o755|fs.ModeDir, nil, group); err != nil {
		return err
	}
	for path, file := range payload {
		target := filepath.Join(dir, path)
		if err := makeFolders(dir, filepath.Dir(path), group); err != nil {
			return err
		}
		if err := os.WriteFile(target, file.Data, 0o600); err != nil {
			return fmt.Errorf("writing volume file: %w", err)
		}
		if err := own(target, file.Mode, file.Owner, group); err != nil {
			return err
		}
	}
	return nil
}

func makeFolders(dir, path string, group *int64) error {
	if path == "." {
		return nil
	}
	for _, name := range strings.Split(path, string(filepath.Separator)) {
		dir = filepath.Join(dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making volume folder: %w", err)
		}
		if err := own(dir, 0o755|fs.ModeDir, nil, group); err != nil {
			return err
		}
	}
	return nil
}

// swap makes ..data name the new folder, in one step.
func swap(dir, fresh string) error {
	next := filepath.Join(dir, nextLink)
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a link left over: %w", err)
	}
	if err := os.Symlink(fresh, next); err != nil {
		return fmt.Errorf("linking the volume's new files: %w", err)
	}
	if err := os.Rename(next, filepath.Join(dir, dataLink)); err != nil {
		return fmt.Errorf("switching to the volume's new files: %w", err)
	}
	return nil
}

// link makes what containers open: a link through ..data per top-level name.
func link(dir string, payload Payload) error {
	for name := range topLevel(payload) {
		err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("linking a volume file: %w", err)
		}
	}
	return nil
}

// sweep removes links to what is no longer there, and the folders of old files.
func sweep(dir, current string, payload Payload) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("sweeping the volume: %w", err)
	}
	wanted := topLevel(payload)
	for _, entry := range entries {
		name := entry.Name()
		if name == dataLink || name == current || wanted[name] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("sweeping the volume: %w", err)
		}
	}
	return nil
}

func topLevel(payload Payload) map[string]bool {
	names := map[string]bool{}
	for path := range payload {
		name, _, _ := strings.Cut(filepath.Clean(path), string(filepath.Separator))
		names[name] = true
	}
	return names
}

// same says whether the folder holds exactly payload already.
func same(dir string, payload Payload, group *int64) bool {
	var found []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		found = append(found, relative)
		return sameFile(path, payload[relative], group)
	})
	return err == nil && len(found) == len(payload) && !slices.ContainsFunc(found, func(path string) bool {
		_, wanted := payload[path]
		return !wanted
	})
}

var errDiffers = errors.New("differs")

func sameFile(path string, file File, group *int64) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm() != groupMode(file.Mode, group) || !bytes.Equal(content, file.Data) {
		return errDiffers
	}
	return nil
}
