package host

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goodFacts are those of a machine that has everything.
func goodFacts() facts {
	return facts{
		dataDir: "/var/lib/muster", dataDirFree: 10 << 30, podCIDR: "10.244.0.0/24",
		namespaces:  []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"},
		filesystems: []string{"nodev", "overlay", "ext4"},
		tools: tools{
			containerd: tool{"/usr/bin/containerd", "1.6.20"}, runc: tool{"/usr/sbin/runc", "1.1.5"},
			shim: tool{path: "/usr/bin/containerd-shim-runc-v2"}, iptables: tool{path: "/usr/sbin/iptables"},
			cniBin: "/usr/lib/cni", overlay: true,
		},
		brNetfilter: true, sharedRoot: true, cgroups: "v2", controllers: []string{"cpuset", "cpu", "io", "memory", "pids"},
		ports: []string{":6443"},
	}
}

func TestEvaluate(t *testing.T) {
	no := errors.New("operation not permitted")
	for _, test := range []struct {
		name   string
		change func(*facts)
		failed string // the check that fails; empty for none
		says   string // part of its detail
		remedy string // part of its remedy
	}{
		{name: "all is there", change: func(*facts) {}},
		{name: "not root, and so unable to try", change: func(f *facts) { f.uid, f.bridge, f.nat, f.cgroupMake = 1000, no, no, no }, failed: "root", says: "1000", remedy: "sudo"},
		{name: "no network namespaces", change: func(f *facts) { f.namespaces = []string{"ipc", "mnt", "pid", "uts"} },
			failed: "kernel namespaces", says: "without net", remedy: "CONFIG_NAMESPACES"},
		{name: "no overlayfs is no failure", change: func(f *facts) { f.tools.overlay = false }},
		{name: "no bridge", change: func(f *facts) { f.bridge = no }, failed: "bridge", says: "not permitted", remedy: "modprobe bridge"},
		{name: "no veth", change: func(f *facts) { f.veth = no }, failed: "veth", says: "not permitted", remedy: "modprobe veth"},
		{name: "no iptables", change: func(f *facts) { f.tools.iptables = tool{} }, failed: "iptables", says: "not found", remedy: "apt-get install"},
		{name: "no nat table", change: func(f *facts) { f.nat = no }, failed: "nat table", says: "not permitted", remedy: "modprobe"},
		{name: "no forwarding", change: func(f *facts) { f.forwarding = no }, failed: "ip forwarding", says: "not permitted", remedy: "sysctl"},
		{name: "no br_netfilter is no failure", change: func(f *facts) { f.brNetfilter = false }},
		{name: "a private / is no failure", change: func(f *facts) { f.sharedRoot = false }},
		{name: "no cgroups", change: func(f *facts) { f.cgroups = "" }, failed: "cgroups", says: "not mounted", remedy: "mount"},
		{name: "cgroups that cannot be made", change: func(f *facts) { f.cgroupMake = no }, failed: "cgroups", says: "not permitted", remedy: "remount"},
		{name: "no memory controller", change: func(f *facts) { f.controllers = []string{"cpu", "pids"} },
			failed: "cgroups", says: "without memory", remedy: "cgroup_enable=memory"},
		{name: "no containerd", change: func(f *facts) { f.tools.containerd = tool{} }, failed: "containerd", says: "not found", remedy: "apt-get install"},
		{name: "old containerd", change: func(f *facts) { f.tools.containerd.version = "1.5.9" }, failed: "containerd", says: "1.5.9", remedy: "1.6 or later"},
		{name: "containerd 2", change: func(f *facts) { f.tools.containerd.version = "2.1.0" }},
		{name: "containerd without a version", change: func(f *facts) { f.tools.containerd.version = "" }, failed: "containerd", says: "version", remedy: "reinstall"},
		{name: "no runc", change: func(f *facts) { f.tools.runc = tool{} }, failed: "runc", says: "not found", remedy: "apt-get install"},
		{name: "no shim", change: func(f *facts) { f.tools.shim = tool{} }, failed: "containerd-shim", says: "not found", remedy: "apt-get install"},
		{name: "no plugins", change: func(f *facts) { f.tools.cniBin = "" }, failed: "cni plugins", says: "/opt/cni/bin", remedy: "containernetworking-plugins"},
		{name: "full disk", change: func(f *facts) { f.dataDirFree = 1 << 30 }, failed: "disk", says: "1.0 GiB", remedy: "free 2 GiB"},
		{name: "long data directory", change: func(f *facts) { f.dataDir = "/" + strings.Repeat("x", maxDataDir) },
			failed: "data directory", says: "75 bytes", remedy: "74 bytes"},
		{name: "overlapping route", change: func(f *facts) { f.overlap = "10.0.0.0/8" }, failed: "pod network", says: "10.0.0.0/8", remedy: "choose"},
		{name: "Pods of another network", change: func(f *facts) { f.stranded = []string{"10.9.9.2", "10.9.9.3"} },
			failed: "pod network", says: "2 Pods have addresses outside", remedy: "muster down"},
		{name: "busy port", change: func(f *facts) { f.busyPorts = map[string]error{":6443": errors.New("address in use")} },
			failed: "port :6443", says: "in use", remedy: "ss -ltnp"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := goodFacts()
			test.change(&f)
			failed := ""
			for _, c := range evaluate(f) {
				if c.OK != (c.Remedy == "") {
					t.Errorf("%+v: a remedy belongs to what fails, and to nothing else", c)
				}
				if c.OK {
					continue
				}
				failed += c.Name
				if !strings.Contains(c.Detail, test.says) || !strings.Contains(c.Remedy, test.remedy) {
					t.Errorf("%+v, want detail %q and remedy %q", c, test.says, test.remedy)
				}
			}
			if failed != test.failed {
				t.Errorf("failed %q, want %q", failed, test.failed)
			}
		})
	}
}

func TestPreflightSeesABusyPortAndLeavesNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("trying out interfaces needs root")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	before := names("/sys/class/net")
	options := Options{DataDir: t.TempDir() + "/new", Ports: []string{listener.Addr().String()}}
	checks, err := Preflight(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if last := checks[len(checks)-1]; last.OK || !strings.Contains(last.Detail, "in use") {
		t.Errorf("a port that is taken: %+v", last)
	}
	if after := without(names("/sys/class/net"), before); len(after) > 0 && strings.HasPrefix(after[0], "mt") {
		t.Errorf("left interfaces %q", after)
	}
	if exists(options.DataDir) {
		t.Error("it made the data directory")
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, wrong := range []Options{
		{DataDir: "relative"}, {DataDir: "/"},
		{PodCIDR: netip.MustParsePrefix("10.0.0.0/30")}, {PodCIDR: netip.MustParsePrefix("fd00::/64")},
	} {
		if _, err := Preflight(t.Context(), wrong); err == nil {
			t.Errorf("%+v was taken", wrong)
		}
	}
}

func TestStrandedAddresses(t *testing.T) {
	l := newLayout(t.TempDir())
	dir := filepath.Join(l.cniState, l.network)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"10.9.8.2", "10.9.9.2", "last_reserved_ip.0", "lock"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("owner"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := stranded(l, netip.MustParsePrefix("10.9.9.0/24")); !slices.Equal(got, []string{"10.9.8.2"}) {
		t.Errorf("got %v", got)
	}
	if got := stranded(newLayout(t.TempDir()), netip.MustParsePrefix("10.9.9.0/24")); len(got) != 0 {
		t.Errorf("a machine without Pods has %v", got)
	}
}
