package runtimetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"muster.dev/muster/internal/cgroup"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// dirPrefix begins the folder of every private containerd.
const dirPrefix = "muster-ctd-"

// own takes a lock that ends with this process however it ends. The file gets its
// name when the lock is held, so that nobody finds it unlocked before.
func (c *Containerd) own() error {
	file, err := os.CreateTemp(c.Dir, "lock")
	if err != nil {
		return fmt.Errorf("making lock: %w", err)
	}
	c.owner = file
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("taking lock: %w", err)
	}
	return os.Rename(file.Name(), filepath.Join(c.Dir, "owner"))
}

// sweepStale removes what tests left that were killed before their cleanup: the
// folders whose lock nobody holds.
func sweepStale(t testing.TB) {
	t.Helper()
	owners, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*", "owner"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range owners {
		owner, err := os.Open(name)
		if err != nil {
			continue // its test just ended
		}
		if unix.Flock(int(owner.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			newContainerd(filepath.Dir(name)).wipe(t)
		}
		owner.Close()
	}
}

// close ends it as gently as it lets itself be ended, then wipes what is left.
func (c *Containerd) close(t testing.TB) {
	if c.conn != nil {
		c.removePods()
		c.conn.Close()
	}
	if c.process != nil {
		_ = c.process.Process.Signal(syscall.SIGTERM) // it may be dead already
		select {
		case <-c.ended:
		case <-time.After(10 * time.Second):
			_ = c.process.Process.Kill()
			<-c.ended
		}
	}
	if t.Failed() {
		t.Logf("containerd's last words:\n%s", c.Log())
	}
	c.wipe(t)
	if c.owner != nil {
		c.owner.Close()
	}
}

// removePods asks containerd to take its Pods away, which also frees their
// addresses; wipe does the rest when it cannot.
func (c *Containerd) removePods() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	service := cri.NewRuntimeServiceClient(c.conn)
	sandboxes, err := service.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return
	}
	for _, s := range sandboxes.Items {
		if _, err := service.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: s.Id}); err == nil {
			_, _ = service.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: s.Id})
		}
	}
}

// wipe removes everything that bears this containerd's names: processes, mounts,
// shim sockets, network, cgroups, files. Each step stands alone, so that one that
// fails does not keep the others from their work.
func (c *Containerd) wipe(t testing.TB) {
	c.killProcesses(t)
	c.removeShimSockets()
	c.unmountAll(t)
	if link, err := netlink.LinkByName(c.Bridge); err == nil {
		if err := netlink.LinkDel(link); err != nil {
			t.Errorf("removing bridge: %v", err)
		}
	}
	c.removeCgroups(t)
	if err := os.RemoveAll(c.Dir); err != nil {
		t.Errorf("removing containerd's folder: %v", err)
	}
}

// killProcesses ends the containerd and shims that name our folder, and
// everything in our cgroups, and waits for their end.
func (c *Containerd) killProcesses(t testing.TB) {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		pids := slices.Concat(c.ownCommands(), c.inCgroups())
		if len(pids) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Errorf("processes %v do not end", pids)
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone is what we want
		}
	}
}

func (c *Containerd) ownCommands() []int {
	var pids []int
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well formed
	for _, name := range files {
		line, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(line, []byte(c.Dir+"/")) {
			continue
		}
		if command := filepath.Base(string(bytes.SplitN(line, []byte{0}, 2)[0])); !strings.HasPrefix(command, "containerd") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// cgroupRoots are our cgroup's own folders, one in every hierarchy.
func (c *Containerd) cgroupRoots() []string {
	roots, _ := filepath.Glob("/sys/fs/cgroup/*" + c.CgroupParent) // the pattern is well formed
	return append(roots, "/sys/fs/cgroup"+c.CgroupParent)
}

// cgroups are those folders and all below them, innermost first.
func (c *Containerd) cgroups() []string {
	var dirs []string
	for _, root := range c.cgroupRoots() {
		folders, _ := cgroup.Folders(root) // whatever is left over makes removing fail
		dirs = append(dirs, folders...)
	}
	slices.SortFunc(dirs, func(a, b string) int { return len(b) - len(a) })
	return dirs
}

func (c *Containerd) inCgroups() []int {
	var pids []int
	for _, root := range c.cgroupRoots() {
		found, _ := cgroup.Processes(root) // asked again until there is none
		pids = append(pids, found...)
	}
	return pids
}

func (c *Containerd) removeCgroups(t testing.TB) {
	for _, dir := range c.cgroups() {
		// A cgroup stays busy for a moment after its last process.
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			err := unix.Rmdir(dir)
			if err == nil || errors.Is(err, unix.ENOENT) {
				break
			}
			if time.Now().After(end) {
				t.Errorf("removing cgroup %s: %v", dir, err)
				break
			}
		}
	}
}

// removeShimSockets removes the sockets that shims make outside our folder; each
// task's folder says where its is.
func (c *Containerd) removeShimSockets() {
	files, _ := filepath.Glob(filepath.Join(c.Dir, "state/io.containerd.runtime.v2.task/*/*/address")) // the pattern is well formed
	for _, name := range files {
		if address, err := os.ReadFile(name); err == nil {
			_ = os.Remove(strings.TrimPrefix(string(address), "unix://")) // a shim that ended well took it along
		}
	}
}

func (c *Containerd) unmountAll(t testing.TB) {
	points, err := mount.New("").List()
	if err != nil {
		t.Errorf("reading mounts: %v", err)
	}
	for _, point := range slices.Backward(points) {
		if strings.HasPrefix(point.Path, c.Dir+"/") {
			if err := unix.Unmount(point.Path, unix.MNT_DETACH); err != nil {
				t.Errorf("unmounting %s: %v", point.Path, err)
			}
		}
	}
}
