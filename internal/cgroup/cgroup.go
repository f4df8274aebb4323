// Package cgroup reads what stands below a cgroup's folder: the cgroups and their
// processes. It works on any mounted tree, of version 1 or 2. It never kills or
// removes: whose a cgroup is, only its caller knows.
package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Folders lists a cgroup's folder and those below it, each before what it holds.
// What vanishes meanwhile is left out. An error comes with what was found.
func Folders(top string) ([]string, error) {
	var folders []string
	var failed []error
	_ = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err == nil && entry.IsDir():
			folders = append(folders, path)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			failed = append(failed, err)
		}
		return nil
	})
	return folders, errors.Join(failed...)
}

// Processes lists the processes in a cgroup and in those below it, except such as
// are outside of this PID namespace. An error comes with what was found.
func Processes(top string) ([]int, error) {
	folders, err := Folders(top)
	failed := []error{err}
	var pids []int
	for _, folder := range folders {
		text, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 { // 0 stands for one outside
				pids = append(pids, pid)
			}
		}
	}
	return pids, errors.Join(failed...)
}
