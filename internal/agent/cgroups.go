package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

const cgroupRoot = "/sys/fs/cgroup"

// removeCgroup removes a Pod's own cgroup, which the runtime makes but leaves
// behind, from every hierarchy. It must be empty of processes.
func removeCgroup(parent string) error {
	if parent == "" || filepath.Clean("/"+parent) == "/" {
		return nil
	}
	hierarchies, err := filepath.Glob(filepath.Join(cgroupRoot, "*"))
	if err != nil {
		return fmt.Errorf("listing cgroup hierarchies: %w", err)
	}
	for _, root := range append(hierarchies, cgroupRoot) {
		if err := removeCgroupTree(filepath.Join(root, parent)); err != nil {
			return fmt.Errorf("removing cgroup: %w", err)
		}
	}
	return nil
}

// removeCgroupTree removes a cgroup with those below it, the deepest first. Only
// folders can be removed: the files in them are the kernel's.
func removeCgroupTree(path string) error {
	var folders []string
	err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, folder := range slices.Backward(folders) {
		if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
