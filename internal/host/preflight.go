package host

import (
	"fmt"
	"slices"
	"strings"
)

// Check is one thing the machine needs, as found.
type Check struct {
	Name   string
	OK     bool
	Detail string // what was found
	Remedy string // what to do; empty when OK
}

// installCommand brings everything muster builds on from Debian's and Ubuntu's
// own packages.
const installCommand = "apt-get install -y containerd runc containernetworking-plugins iptables"

// minimumDisk is what a handful of images and the API's data take.
const minimumDisk = 2 << 30

// maxDataDir is how long the data directory's name may be: the name of a socket
// in it may have 107 bytes.
const maxDataDir = 107 - len("/containerd/containerd.sock.ttrpc")

// neededControllers are the cgroup controllers that resource limits and the
// counting of processes need.
var neededControllers = []string{"cpu", "memory", "pids"}

// facts is what gatherFacts found on the machine; evaluate judges it.
type facts struct {
	uid         int
	dataDir     string
	dataDirFree uint64 // bytes
	namespaces  []string
	filesystems []string
	tools       tools
	bridge      error // making a bridge
	veth        error
	nat         error // iptables' nat table
	forwarding  error // setting ip_forward
	brNetfilter bool
	sharedRoot  bool   // mounts made later below / reach containers that ask for them
	cgroups     string // "v1", "v2", "hybrid"; empty without
	controllers []string
	cgroupMake  error            // making a cgroup
	busyPorts   map[string]error // of the ports asked for, those that cannot be opened
	ports       []string
	overlap     string   // the route that overlaps the Pod network
	stranded    []string // addresses of our Pods outside of the Pod network asked for
	podCIDR     string
}

// evaluate turns facts into the list of checks, in the order a person would go
// through them. What only root can try out is left out for others: their failure
// would say nothing of the machine.
func evaluate(f facts) []Check {
	root := f.uid == 0
	checks := []Check{check("root", root, fmt.Sprintf("user ID %d", f.uid), "run it as root, for example with sudo"), checkNamespaces(f)}
	if root {
		checks = append(checks, checkTried(f)...)
	}
	checks = append(checks,
		checkBridgeFilter(f), checkPropagation(f), checkContainerd(f),
		check("runc", f.tools.runc.path != "", toolDetail(f.tools.runc), installCommand),
		check("containerd-shim", f.tools.shim.path != "", toolDetail(f.tools.shim), installCommand),
		check("cni plugins", f.tools.cniBin != "", cniDetail(f), installCommand),
		check("iptables", f.tools.iptables.path != "", toolDetail(f.tools.iptables), installCommand),
		checkDisk(f),
		check("data directory", len(f.dataDir) <= maxDataDir, fmt.Sprintf("%s has %d bytes", f.dataDir, len(f.dataDir)),
			fmt.Sprintf("choose a --data-dir of at most %d bytes: the names of sockets in it are limited", maxDataDir)),
		checkPodNetwork(f))
	return append(checks, checkPorts(f)...)
}

// checkTried judges what was tried out on the machine.
func checkTried(f facts) []Check {
	checks := []Check{
		checkSnapshotter(f), checkCgroups(f),
		check("bridge", f.bridge == nil, said(f.bridge, "can be made"), "modprobe bridge"),
		check("veth", f.veth == nil, said(f.veth, "can be made"), "modprobe veth"),
		check("ip forwarding", f.forwarding == nil, said(f.forwarding, "can be set"), "sysctl -w net.ipv4.ip_forward=1, on the machine itself if this is a container"),
	}
	if f.tools.iptables.path != "" {
		checks = append(checks, check("nat table", f.nat == nil, said(f.nat, "can be read"),
			"modprobe -a nf_tables nft_compat iptable_nat, or switch with `update-alternatives --config iptables`"))
	}
	return checks
}

func check(name string, ok bool, detail, remedy string) Check {
	if ok {
		remedy = ""
	}
	return Check{Name: name, OK: ok, Detail: detail, Remedy: remedy}
}

func said(err error, fine string) string {
	if err != nil {
		return err.Error()
	}
	return fine
}

func checkNamespaces(f facts) Check {
	missing := without([]string{"ipc", "mnt", "net", "pid", "uts"}, f.namespaces)
	return check("kernel namespaces", len(missing) == 0, present(missing, "ipc, mnt, net, pid, uts"),
		"use a kernel with CONFIG_NAMESPACES and its parts")
}

func checkSnapshotter(f facts) Check {
	if f.tools.overlay {
		return check("image layers", true, "overlayfs", "")
	}
	why := "the kernel has no overlayfs (modprobe overlay would give it)"
	if slices.Contains(f.filesystems, "overlay") {
		why = "overlayfs does not work in " + f.dataDir
	}
	// Slow and hungry for disk, but right.
	return check("image layers", true, "native snapshotter, which copies every layer: "+why, "")
}

func checkBridgeFilter(f facts) Check {
	if f.brNetfilter {
		return check("br_netfilter", true, "present", "")
	}
	return check("br_netfilter", true, "absent; only Services routed by kube-proxy between Pods of one node need it", "")
}

func checkPropagation(f facts) Check {
	if f.sharedRoot {
		return check("mount propagation", true, "/ is shared", "")
	}
	return check("mount propagation", true, "/ is private; volumes with mountPropagation are refused until `mount --make-rshared /`", "")
}

func checkCgroups(f facts) Check {
	if f.cgroups == "" {
		return check("cgroups", false, "not mounted", "mount -t cgroup2 none /sys/fs/cgroup")
	}
	if f.cgroupMake != nil {
		return check("cgroups", false, f.cgroupMake.Error(), "mount -o remount,rw /sys/fs/cgroup, or run it where cgroups can be made")
	}
	missing := without(neededControllers, f.controllers)
	return check("cgroups", len(missing) == 0, f.cgroups+", "+present(missing, strings.Join(neededControllers, ", ")),
		"boot with cgroup_enable=memory, or hand the controllers on if this is a container")
}

func checkContainerd(f facts) Check {
	c := f.tools.containerd
	if c.path == "" {
		return check("containerd", false, "not found", installCommand)
	}
	major, minor, known := majorMinor(c.version)
	if !known {
		return check("containerd", false, c.path+" does not say its version", "reinstall it: "+installCommand)
	}
	ok := major > 1 || major == 1 && minor >= 6
	return check("containerd", ok, toolDetail(c), "install containerd 1.6 or later, for example with `"+installCommand+"`")
}

func toolDetail(t tool) string {
	if t.path == "" {
		return "not found"
	}
	return strings.TrimSpace(t.path + " " + t.version)
}

func cniDetail(f facts) string {
	if f.tools.cniBin != "" {
		return f.tools.cniBin
	}
	return fmt.Sprintf("no folder of CNI_PATH, %s has %s", strings.Join(cniFolders, ", "), strings.Join(cniPlugins, ", "))
}

func checkDisk(f facts) Check {
	gib := float64(f.dataDirFree) / (1 << 30)
	return check("disk", f.dataDirFree >= minimumDisk, fmt.Sprintf("%.1f GiB free for %s", gib, f.dataDir),
		fmt.Sprintf("free %d GiB there, or choose another --data-dir", minimumDisk>>30))
}

func checkPodNetwork(f facts) Check {
	switch {
	case f.overlap != "":
		return check("pod network", false, fmt.Sprintf("%s overlaps the route %s", f.podCIDR, f.overlap),
			"choose a Pod network that no route of this machine covers")
	case len(f.stranded) > 0:
		return check("pod network", false, fmt.Sprintf("%d Pods have addresses outside of %s, such as %s", len(f.stranded), f.podCIDR, f.stranded[0]),
			"keep the Pod network they have, or end them first with `muster down`")
	}
	return check("pod network", true, f.podCIDR, "")
}

func checkPorts(f facts) []Check {
	var checks []Check
	for _, port := range f.ports {
		err := f.busyPorts[port]
		checks = append(checks, check("port "+port, err == nil, said(err, "free"),
			"end what listens there (`ss -ltnp` shows it), or choose another address"))
	}
	return checks
}

// without lists what is wanted and not there.
func without(wanted, there []string) []string {
	var missing []string
	for _, name := range wanted {
		if !slices.Contains(there, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

func present(missing []string, all string) string {
	if len(missing) > 0 {
		return "without " + strings.Join(missing, ", ")
	}
	return "with " + all
}
