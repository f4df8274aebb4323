package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"muster.dev/muster/internal/cgroup"
)

// hierarchy is one mounted cgroup tree: there is one with version 2, one for
// each controller with version 1, and both kinds on a hybrid machine.
type hierarchy struct {
	root    string
	v2      bool
	options []string // version 1: the controllers it carries
}

// hierarchies lists the mounted cgroup trees.
func hierarchies() ([]hierarchy, error) {
	mounts, err := readMounts()
	if err != nil {
		return nil, err
	}
	var found []hierarchy
	for _, m := range mounts {
		if m.fsType != "cgroup" && m.fsType != "cgroup2" {
			continue
		}
		h := hierarchy{root: m.target, v2: m.fsType == "cgroup2", options: strings.Split(m.superOptions, ",")}
		if !slices.ContainsFunc(found, func(f hierarchy) bool { return f.root == h.root }) {
			found = append(found, h)
		}
	}
	return found, nil
}

// controllers lists what the machine's cgroups can limit, over all trees.
func controllers(all []hierarchy) []string {
	var names []string
	for _, h := range all {
		if !h.v2 {
			names = append(names, h.options...)
			continue
		}
		text, err := os.ReadFile(filepath.Join(h.root, "cgroup.controllers"))
		if err == nil {
			names = append(names, strings.Fields(string(text))...)
		}
	}
	return names
}

// makeCgroups makes the Pods' parent (unless systemd does) and a place for
// containerd itself, so that it does not end with the service or session that
// muster was started in.
func makeCgroups(l layout, systemd bool) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	groups := []string{l.cgroupBase, l.runtimeCgroup()}
	if !systemd {
		groups = append(groups, l.podCgroup(false))
	}
	for _, h := range all {
		for _, group := range groups {
			if err := h.make(group); err != nil {
				return fmt.Errorf("making cgroup %s in %s: %w", group, h.root, err)
			}
		}
	}
	return nil
}

func (l layout) runtimeCgroup() string { return l.cgroupBase + "/runtime" }

func (h hierarchy) make(group string) error {
	dir := filepath.Join(h.root, group)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if h.v2 {
		return h.delegate(filepath.Dir(dir))
	}
	if slices.Contains(h.options, "cpuset") {
		// A new version 1 cpuset is empty, and takes no process before it is filled.
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inherit(dir, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// delegate hands a version 2 group's controllers on to its children. A
// controller that cannot be handed on (the kernel refuses some while real-time
// processes run) is left out; preflight reports those Pods need.
func (h hierarchy) delegate(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(text)) {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+name), 0)
	}
	return nil
}

func inherit(dir, name string) error {
	file := filepath.Join(dir, name)
	if text, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(text)) != "" {
		return err
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name))
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0)
}

// joinRuntimeCgroup moves containerd into its own cgroup; what it starts later
// follows it.
func joinRuntimeCgroup(l layout, pid int) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		file := filepath.Join(h.root, l.runtimeCgroup(), "cgroup.procs")
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("moving containerd to its cgroup: %w", err)
		}
	}
	return nil
}

// cgroupTops are the directories in all trees that hold everything of ours.
func cgroupTops(l layout, all []hierarchy) []string {
	var tops []string
	for _, h := range all {
		for _, top := range []string{l.cgroupBase, "/" + l.podCgroup(true)} {
			tops = append(tops, filepath.Join(h.root, top))
		}
	}
	return tops
}

// inCgroups lists the processes at or below our cgroups, without this one.
func inCgroups(tops []string) []process {
	seen := map[int]process{}
	for _, top := range tops {
		pids, _ := cgroup.Processes(top) // what cannot be read now is found by the next look
		for _, pid := range pids {
			if p, err := identify(pid); err == nil && pid != os.Getpid() {
				seen[pid] = p
			}
		}
	}
	return slices.Collect(maps.Values(seen))
}

// killCgroups ends every process in our cgroups: what forks meanwhile is found
// by looking again, until nothing is left.
func killCgroups(ctx context.Context, tops []string) error {
	for range 20 {
		left := inCgroups(tops)
		if len(left) == 0 {
			return nil
		}
		for _, top := range tops {
			thaw(top) // a frozen process does not take its SIGKILL with version 1
		}
		for _, p := range left {
			if p.running() {
				_ = unix.Kill(p.PID, unix.SIGKILL) // ESRCH: it ended by itself
			}
		}
		bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
		for _, p := range left {
			_ = p.wait(bounded) // whoever is left is found by the next look
		}
		cancel()
		if ctx.Err() != nil {
			return fmt.Errorf("ending what runs in our cgroups: %w", ctx.Err())
		}
	}
	return fmt.Errorf("ending what runs in our cgroups: %d processes do not end", len(inCgroups(tops)))
}

func thaw(top string) {
	folders, _ := cgroup.Folders(top)
	for _, folder := range folders {
		if file := filepath.Join(folder, "freezer.state"); exists(file) {
			_ = os.WriteFile(file, []byte("THAWED"), 0)
		}
	}
}

// removeCgroups removes our cgroups, deepest first; they must be empty.
func removeCgroups(tops []string) error {
	var failed []error
	for _, top := range tops {
		folders, _ := cgroup.Folders(top) // one that cannot be read cannot be removed either, which tells
		for _, dir := range slices.Backward(folders) {
			if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
				failed = append(failed, fmt.Errorf("removing cgroup %s: %w", dir, err))
			}
		}
	}
	return errors.Join(failed...)
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
