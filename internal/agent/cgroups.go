package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"muster.dev/muster/internal/cgroup"
)

const cgroupRoot = "/sys/fs/cgroup"

// removeCgroup removes a Pod's own cgroup, which the runtime makes but leaves
// behind, from every hierarchy. Of an ended Pod no process may be left, but a
// runtime that was killed while it made a sandbox forgets the process it had
// started: such are killed, and the error asks for another try.
func removeCgroup(parent string) error {
	if parent == "" || filepath.Clean("/"+parent) == "/" {
		return nil
	}
	hierarchies, err := filepath.Glob(filepath.Join(cgroupRoot, "*"))
	if err != nil {
		return fmt.Errorf("listing cgroup hierarchies: %w", err)
	}
	for _, root := range append(hierarchies, cgroupRoot) {
		path := filepath.Join(root, parent)
		err := removeCgroupTree(path)
		if errors.Is(err, unix.EBUSY) {
			err = errors.Join(err, killCgroup(path))
		}
		if err != nil {
			return fmt.Errorf("removing cgroup: %w", err)
		}
	}
	return nil
}

// removeCgroupTree removes a cgroup with those below it, the deepest first. Only
// folders can be removed: the files in them are the kernel's.
func removeCgroupTree(path string) error {
	folders, err := cgroup.Folders(path)
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

// killCgroup kills every process in a cgroup and in those below it.
func killCgroup(path string) error {
	pids, err := cgroup.Processes(path)
	failed := []error{err}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			failed = append(failed, fmt.Errorf("killing process %d of %s: %w", pid, path, err))
		}
	}
	return errors.Join(failed...)
}
