package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Preflight looks whether the machine can do what Start needs. It tries things
// out (a bridge, a mount, a port) rather than reading kernel configurations, and
// leaves nothing behind. An error means that options make no sense.
func Preflight(ctx context.Context, options Options) ([]Check, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return evaluate(gatherFacts(ctx, options)), nil
}

func gatherFacts(ctx context.Context, o Options) facts {
	l := newLayout(o.DataDir)
	f := facts{
		uid: os.Geteuid(), dataDir: o.DataDir, tools: findTools(o.DataDir),
		namespaces: names("/proc/self/ns"), ports: o.Ports, busyPorts: map[string]error{},
		podCIDR: o.PodCIDR.String(), overlap: overlappingRoute(o.PodCIDR, l.bridge),
		stranded: stranded(l, o.PodCIDR),
	}
	f.dataDirFree = freeBytes(o.DataDir)
	if text, err := os.ReadFile("/proc/filesystems"); err == nil {
		f.filesystems = strings.Fields(string(text))
	}
	f.bridge, f.veth = tryLinks(l.id)
	if iptables := f.tools.iptables.path; iptables != "" {
		_, f.nat = output(ctx, "", iptables, "-w", "-t", "nat", "-S", "POSTROUTING")
	}
	f.forwarding = trySysctl(ipForward)
	f.brNetfilter = exists("/proc/sys/net/bridge/bridge-nf-call-iptables")
	if mounts, err := readMounts(); err == nil {
		f.sharedRoot = slices.ContainsFunc(mounts, func(m mountPoint) bool { return m.target == "/" && m.shared })
	}
	if all, err := hierarchies(); err == nil {
		f.cgroups, f.controllers = cgroupMode(all), controllers(all)
		f.cgroupMake = tryCgroups(all, l.cgroupBase+"-try")
	}
	for _, port := range o.Ports {
		if err := tryPort(port); err != nil {
			f.busyPorts[port] = err
		}
	}
	return f
}

func cgroupMode(all []hierarchy) string {
	v2 := slices.ContainsFunc(all, func(h hierarchy) bool { return h.v2 })
	v1 := slices.ContainsFunc(all, func(h hierarchy) bool { return !h.v2 })
	switch {
	case v1 && v2:
		return "hybrid"
	case v1:
		return "v1"
	case v2:
		return "v2"
	}
	return ""
}

func names(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var list []string
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return list
}

func freeBytes(dir string) uint64 {
	var stat unix.Statfs_t
	if err := unix.Statfs(nearestExisting(dir), &stat); err != nil {
		return 0
	}
	return stat.Bavail * uint64(stat.Bsize)
}

// tryCgroups makes a cgroup in every tree and removes it.
func tryCgroups(all []hierarchy, group string) error {
	for _, h := range all {
		dir := filepath.Join(h.root, group)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		if err := unix.Rmdir(dir); err != nil {
			return fmt.Errorf("removing cgroup %s: %w", dir, err)
		}
	}
	return nil
}

// tryLinks makes a bridge and a pair of virtual Ethernet ends and removes them.
func tryLinks(id string) (bridge, veth error) {
	try := func(link netlink.Link) error {
		err := netlink.LinkAdd(link)
		if err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("making an interface of type %s: %w", link.Type(), err)
		}
		if err := netlink.LinkDel(link); err != nil {
			return fmt.Errorf("removing interface %s: %w", link.Attrs().Name, err)
		}
		return nil
	}
	attributes := func(prefix string) netlink.LinkAttrs {
		a := netlink.NewLinkAttrs()
		a.Name = prefix + id
		return a
	}
	bridge = try(&netlink.Bridge{LinkAttrs: attributes("mtb")})
	veth = try(&netlink.Veth{LinkAttrs: attributes("mtv"), PeerName: "mtw" + id})
	return bridge, veth
}

// trySysctl writes back what a kernel setting holds.
func trySysctl(name string) error {
	value, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := os.WriteFile(name, value, 0); err != nil {
		// Where it is on already, not being able to set it does no harm.
		if strings.TrimSpace(string(value)) == "1" {
			return nil
		}
		return err
	}
	return nil
}

func tryPort(address string) error {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return nil // the bridge's own address, which does not exist yet
	}
	if err != nil {
		return err
	}
	return listener.Close()
}

// stranded are the addresses outside of the network that Pods still have: they
// would lose their gateway.
func stranded(l layout, network netip.Prefix) []string {
	held, err := reservations(l)
	if err != nil {
		return nil // what cannot be read is no ground to refuse a start
	}
	var addresses []string
	for _, one := range held {
		name := filepath.Base(one.file)
		if address, err := netip.ParseAddr(name); err == nil && !network.Contains(address) {
			addresses = append(addresses, name)
		}
	}
	return addresses
}

// overlappingRoute is a route other than our own bridge's and the default one
// that would take Pods' packets elsewhere.
func overlappingRoute(network netip.Prefix, bridge string) string {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return ""
	}
	for _, route := range routes {
		if route.Dst == nil {
			continue
		}
		ones, _ := route.Dst.Mask.Size()
		address, ok := netip.AddrFromSlice(route.Dst.IP.To4())
		if !ok || ones == 0 || !network.Overlaps(netip.PrefixFrom(address, ones)) {
			continue
		}
		if link, err := netlink.LinkByIndex(route.LinkIndex); err == nil && link.Attrs().Name == bridge {
			continue
		}
		return route.Dst.String()
	}
	return ""
}
