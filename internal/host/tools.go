package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// usualFolders are searched after PATH: sudo and service managers often give a
// PATH without the sbin folders.
var usualFolders = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// cniFolders are where distributions and upstream put CNI plugins.
var cniFolders = []string{"/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni", "/usr/local/lib/cni"}

// cniPlugins are the plugins the Pod network uses.
var cniPlugins = []string{"bridge", "host-local", "loopback", "portmap"}

// tool is a program found on the machine; without a path it was not found.
type tool struct {
	path    string
	version string // "1.6.20"; empty when unknown
}

// tools are the programs muster builds on and what they can do here.
type tools struct {
	containerd, runc, shim, iptables tool
	cniBin                           string // the folder with all plugins we need
	overlay                          bool   // overlayfs works in the data directory
	systemd                          bool   // the machine's init is systemd
	resource                         bool   // we hold CAP_SYS_RESOURCE
}

func findTools(dataDir string) tools {
	t := tools{
		containerd: findTool("containerd"), runc: findTool("runc"),
		shim: findTool("containerd-shim-runc-v2"), iptables: findTool("iptables"),
		cniBin:   findCNI(append(filepath.SplitList(os.Getenv("CNI_PATH")), cniFolders...)),
		overlay:  overlayWorks(dataDir),
		resource: hasCapability(24), // CAP_SYS_RESOURCE
	}
	// The documented test for "booted with systemd", sd_booted(3).
	if info, err := os.Stat("/run/systemd/system"); err == nil {
		t.systemd = info.IsDir()
	}
	if t.shim.path == "" && t.containerd.path != "" { // containerd also looks beside itself
		beside := filepath.Join(filepath.Dir(t.containerd.path), "containerd-shim-runc-v2")
		if executable(beside) {
			t.shim.path = beside
		}
	}
	for _, one := range []*tool{&t.containerd, &t.runc} {
		one.version = askVersion(one.path)
	}
	return t
}

// missing says what Start cannot do without; Preflight says it at more length.
func (t tools) missing() error {
	var missing []error
	for name, path := range map[string]string{"containerd": t.containerd.path, "runc": t.runc.path,
		"containerd-shim-runc-v2": t.shim.path, "iptables": t.iptables.path, "CNI plugins": t.cniBin} {
		if path == "" {
			missing = append(missing, fmt.Errorf("looking for %s: not found; install it with `%s`", name, installCommand))
		}
	}
	return errors.Join(missing...)
}

func (t tools) settings(l layout) containerdSettings {
	s := containerdSettings{
		layout: l, major: 1, snapshotter: "native", runc: t.runc.path, cniBin: t.cniBin,
		restrictOOM: !t.resource, systemdCgroup: t.systemd,
	}
	if major, _, ok := majorMinor(t.containerd.version); ok {
		s.major = major
	}
	if t.overlay {
		s.snapshotter = "overlayfs"
	}
	return s
}

// environment is what containerd and, through it, shims and CNI plugins get: our
// own, with every folder on PATH where their helpers may be.
func (t tools) environment() []string {
	folders := append([]string{filepath.Dir(t.shim.path), filepath.Dir(t.runc.path), filepath.Dir(t.iptables.path)},
		filepath.SplitList(os.Getenv("PATH"))...)
	path := strings.Join(append(folders, usualFolders...), string(filepath.ListSeparator))
	var env []string
	for _, entry := range os.Environ() {
		// A NOTIFY_SOCKET is ours to answer, not our child's.
		if !strings.HasPrefix(entry, "PATH=") && !strings.HasPrefix(entry, "NOTIFY_SOCKET=") {
			env = append(env, entry)
		}
	}
	return append(env, "PATH="+path)
}

func findTool(name string) tool {
	if path, err := exec.LookPath(name); err == nil {
		if path, err = filepath.Abs(path); err == nil {
			return tool{path: path}
		}
	}
	for _, folder := range usualFolders {
		if path := filepath.Join(folder, name); executable(path) {
			return tool{path: path}
		}
	}
	return tool{}
}

func findCNI(folders []string) string {
	for _, folder := range folders {
		found := 0
		for _, plugin := range cniPlugins {
			if executable(filepath.Join(folder, plugin)) {
				found++
			}
		}
		if found == len(cniPlugins) {
			return folder
		}
	}
	return ""
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

var versionPattern = regexp.MustCompile(`\bv?(\d+\.\d+(?:\.\d+)?)`)

// askVersion is the first version number a program prints of itself.
func askVersion(path string) string {
	if path == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	text, err := output(ctx, "", path, "--version")
	if err != nil {
		return ""
	}
	match := versionPattern.FindStringSubmatch(text)
	if match == nil {
		return ""
	}
	return match[1]
}

func majorMinor(version string) (major, minor int, ok bool) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, first := strconv.Atoi(parts[0])
	minor, second := strconv.Atoi(parts[1])
	return major, minor, first == nil && second == nil
}

// hasCapability says whether this process holds a capability, by its number.
func hasCapability(number uint) bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for _, line := range strings.Split(string(status), "\n") {
		if value, found := strings.CutPrefix(line, "CapEff:"); found {
			mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			return err == nil && mask&(1<<number) != 0
		}
	}
	return false
}
