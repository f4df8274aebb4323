package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"
)

// DefaultDataDir is where muster keeps everything unless told otherwise.
const DefaultDataDir = "/var/lib/muster"

// DefaultPodCIDR is the Pod network of a machine that was given none.
const DefaultPodCIDR = "10.244.0.0/24"

// Options says what to make and where.
type Options struct {
	// DataDir holds everything that is kept; an absolute path.
	DataDir string
	// PodCIDR is this node's IPv4 Pod network; its first address is the gateway.
	PodCIDR netip.Prefix
	// Ports are the "address:port" TCP listeners muster is about to open. Only
	// Preflight reads them.
	Ports []string
	// PodsDir is the agent's directory of Pod directories, one per Pod UID.
	// Remove takes it away when purging, and finds in it whose logs to remove.
	PodsDir string
	// PodLogsDir and ContainerLogsDir are where the agent keeps Pod logs and the
	// links to them. Only Remove reads them, and takes away only what belongs to
	// this cluster's Pods.
	PodLogsDir, ContainerLogsDir string
	// StopTimeout bounds how long Remove waits for any one Pod to end by itself;
	// zero means each Pod's own grace period.
	StopTimeout time.Duration
	// Progress, when set, is told in a few words what is being waited for.
	Progress func(what string)
}

func (o Options) withDefaults() (Options, error) {
	if o.DataDir == "" {
		o.DataDir = DefaultDataDir
	}
	if !filepath.IsAbs(o.DataDir) {
		return o, fmt.Errorf("reading the data directory: %q is not an absolute path", o.DataDir)
	}
	var err error
	if o.DataDir, err = realPath(o.DataDir); err != nil {
		return o, fmt.Errorf("reading the data directory: %w", err)
	}
	if o.DataDir == "/" {
		return o, fmt.Errorf("reading the data directory: / cannot be one")
	}
	if o.PodsDir != "" {
		if o.PodsDir, err = realPath(o.PodsDir); err != nil {
			return o, fmt.Errorf("reading the Pods' directory: %w", err)
		}
	}
	if !o.PodCIDR.IsValid() {
		o.PodCIDR = netip.MustParsePrefix(DefaultPodCIDR)
	}
	o.PodCIDR = o.PodCIDR.Masked()
	if !o.PodCIDR.Addr().Is4() || o.PodCIDR.Bits() > 29 {
		return o, fmt.Errorf("reading the Pod network: %s is not an IPv4 network of at least 8 addresses", o.PodCIDR)
	}
	if o.PodLogsDir == "" {
		o.PodLogsDir = "/var/log/pods"
	}
	if o.ContainerLogsDir == "" {
		o.ContainerLogsDir = "/var/log/containers"
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o, nil
}

// realPath is a path without symbolic links, as the kernel names mounts; what of
// it does not exist yet stays as it is.
func realPath(path string) (string, error) {
	there := nearestExisting(filepath.Clean(path))
	real, err := filepath.EvalSymlinks(there)
	if err != nil {
		return "", err
	}
	rest, err := filepath.Rel(there, filepath.Clean(path))
	if err != nil {
		return "", err
	}
	return filepath.Join(real, rest), nil
}

// gateway is the bridge's own address: the first of the Pod network.
func (o Options) gateway() netip.Addr { return o.PodCIDR.Addr().Next() }

// layout is where everything stands and what it is called. It follows from the
// data directory alone, so that a process that was killed leaves nothing that
// its successor cannot name.
type layout struct {
	data string // the data directory
	id   string // eight hexadecimal digits of the data directory's hash

	dir    string // containerd's corner of the data directory
	root   string // images and snapshots, kept over a restart of the machine
	state  string // sockets, bundles, namespaces; void after a restart of the machine
	socket string
	config string
	log    string
	record string // which process runs, see process.go
	lock   string

	cni        string // configuration of the Pod network
	cniState   string // address reservations of host-local
	network    string // the CNI network's name
	bridge     string // the interface's name, at most 15 bytes
	cgroupBase string // our cgroup, relative to a hierarchy's root; cgroupfs only
}

func newLayout(dataDir string) layout {
	sum := sha256.Sum256([]byte(dataDir))
	id := hex.EncodeToString(sum[:4])
	dir := filepath.Join(dataDir, "containerd")
	return layout{
		data: dataDir, id: id,
		dir: dir, root: filepath.Join(dir, "root"), state: filepath.Join(dir, "state"),
		socket: filepath.Join(dir, "containerd.sock"), config: filepath.Join(dir, "config.toml"),
		log: filepath.Join(dir, "containerd.log"), record: filepath.Join(dir, "process.json"),
		lock: filepath.Join(dir, "lock"),
		cni:  filepath.Join(dataDir, "cni", "net.d"), cniState: filepath.Join(dataDir, "cni", "addresses"),
		network: "muster-" + id, bridge: "mst" + id,
		cgroupBase: "/muster-" + id,
	}
}

// podCgroup is the parent that Pods are given, in the form their driver expects.
func (l layout) podCgroup(systemd bool) string {
	if systemd {
		return "muster" + l.id + ".slice" // no dash: a dash would nest slices
	}
	return l.cgroupBase + "/pods"
}
