package agent

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// machine reads what the kernel and the distribution say about this machine.
// root and proc, sys and etc are the folders it looks in, so that tests can
// stand in for a machine.
type machine struct {
	root           string // the filesystem whose room is the node's ephemeral storage
	proc, sys, etc string
}

func thisMachine(root string) machine {
	return machine{root: root, proc: "/proc", sys: "/sys", etc: "/etc"}
}

// capacity is what the machine has in all; maxPods is the agent's own limit.
func (m machine) capacity(maxPods int) (v1.ResourceList, error) {
	memory, err := m.meminfo("MemTotal")
	if err != nil {
		return nil, err
	}
	disk, err := m.disk()
	if err != nil {
		return nil, err
	}
	list := v1.ResourceList{
		v1.ResourceCPU:              *resource.NewQuantity(int64(goruntime.NumCPU()), resource.DecimalSI),
		v1.ResourceMemory:           *resource.NewQuantity(memory, resource.BinarySI),
		v1.ResourcePods:             *resource.NewQuantity(int64(maxPods), resource.DecimalSI),
		v1.ResourceEphemeralStorage: *resource.NewQuantity(disk.total, resource.BinarySI),
	}
	return list, m.addHugePages(list)
}

func (m machine) addHugePages(list v1.ResourceList) error {
	folders, err := filepath.Glob(filepath.Join(m.sys, "kernel/mm/hugepages/hugepages-*kB"))
	if err != nil {
		return fmt.Errorf("reading huge pages: %w", err)
	}
	for _, folder := range folders {
		size, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(folder), "hugepages-"), "kB"), 10, 64)
		if err != nil {
			return fmt.Errorf("reading huge pages: %w", err)
		}
		pages, err := readInt(filepath.Join(folder, "nr_hugepages"))
		if err != nil {
			return fmt.Errorf("reading huge pages: %w", err)
		}
		page := resource.NewQuantity(size<<10, resource.BinarySI)
		list[v1.ResourceName(v1.ResourceHugePagesPrefix+page.String())] = *resource.NewQuantity(pages*(size<<10), resource.BinarySI)
	}
	return nil
}

// allocatable is capacity without what is reserved and without huge pages'
// share of memory, never below zero.
func allocatable(capacity, reserved v1.ResourceList) v1.ResourceList {
	free := capacity.DeepCopy()
	for name, held := range reserved {
		take(free, name, held)
	}
	for name, pages := range capacity {
		if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			take(free, v1.ResourceMemory, pages)
		}
	}
	return free
}

func take(from v1.ResourceList, name v1.ResourceName, amount resource.Quantity) {
	left, ok := from[name]
	if !ok {
		return
	}
	if left.Sub(amount); left.Sign() < 0 {
		left = *resource.NewQuantity(0, left.Format)
	}
	from[name] = left
}

// info is the machine's identity and versions, without the runtime's part.
func (m machine) info() v1.NodeSystemInfo {
	return v1.NodeSystemInfo{
		MachineID:       firstLine(filepath.Join(m.etc, "machine-id"), filepath.Join(m.sys, "class/dmi/id/product_uuid")),
		SystemUUID:      firstLine(filepath.Join(m.sys, "class/dmi/id/product_uuid"), filepath.Join(m.etc, "machine-id")),
		BootID:          firstLine(filepath.Join(m.proc, "sys/kernel/random/boot_id")),
		KernelVersion:   firstLine(filepath.Join(m.proc, "sys/kernel/osrelease")),
		OSImage:         m.osImage(),
		OperatingSystem: goruntime.GOOS,
		Architecture:    goruntime.GOARCH,
	}
}

func (m machine) osImage() string {
	data, err := os.ReadFile(filepath.Join(m.etc, "os-release"))
	if err != nil {
		return "Linux"
	}
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"'`)
		}
	}
	return "Linux"
}

// space is the room on a filesystem: bytes, and inodes as shares of one.
type space struct {
	total, available int64
	inodesFree       float64
}

func (m machine) disk() (space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(m.root, &st); err != nil {
		return space{}, fmt.Errorf("reading disk of %s: %w", m.root, err)
	}
	s := space{total: int64(st.Blocks) * st.Bsize, available: int64(st.Bavail) * st.Bsize, inodesFree: 1}
	if st.Files > 0 { // some filesystems have no fixed number
		s.inodesFree = float64(st.Ffree) / float64(st.Files)
	}
	return s, nil
}

// meminfo is one line of /proc/meminfo, in bytes.
func (m machine) meminfo(key string) (int64, error) {
	file, err := os.Open(filepath.Join(m.proc, "meminfo"))
	if err != nil {
		return 0, fmt.Errorf("reading memory: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == key+":" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("reading memory: no %s in %s", key, file.Name())
}

// pidsFree is the share of process IDs that is still to be had.
func (m machine) pidsFree() (float64, error) {
	pidMax, err := readInt(filepath.Join(m.proc, "sys/kernel/pid_max"))
	if err != nil {
		return 0, fmt.Errorf("reading process limits: %w", err)
	}
	threads, err := readInt(filepath.Join(m.proc, "sys/kernel/threads-max"))
	if err != nil {
		return 0, fmt.Errorf("reading process limits: %w", err)
	}
	load := strings.Fields(firstLine(filepath.Join(m.proc, "loadavg"))) // the fourth field is running/all
	if len(load) < 4 {
		return 0, fmt.Errorf("reading process count: %s/loadavg has %d fields", m.proc, len(load))
	}
	_, all, _ := strings.Cut(load[3], "/")
	used, err := strconv.ParseInt(all, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading process count: %w", err)
	}
	return 1 - float64(used)/float64(min(pidMax, threads)), nil
}

// firstLine is the first line of the first file there is.
func firstLine(paths ...string) string {
	for _, path := range paths {
		if data, err := os.ReadFile(path); err == nil {
			line, _, _ := strings.Cut(string(data), "\n")
			return strings.TrimSpace(line)
		}
	}
	return ""
}

func readInt(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
}
