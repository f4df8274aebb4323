package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
)

const ipForward = "/proc/sys/net/ipv4/ip_forward"

// setUpNetwork makes the bridge with its gateway address, before any Pod does,
// so that the API server can listen on it; and the CNI configuration.
func (c *Containerd) setUpNetwork(ctx context.Context) error {
	l, o := c.layout, c.options
	if err := makeBridge(l.bridge, o.gateway(), o.PodCIDR); err != nil {
		return err
	}
	if err := turnOnForwarding(l); err != nil {
		return err
	}
	if err := allowForwarding(ctx, l); err != nil {
		return err
	}
	list, err := renderNetwork(l, o)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(l.cni, "10-muster.conflist"), list, 0o644)
}

func makeBridge(name string, gateway netip.Addr, network netip.Prefix) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	// An address of its own stays when Pods come and go; otherwise the bridge
	// takes on its ports' and neighbours lose track of it.
	sum := sha256.Sum256([]byte(name))
	attributes.HardwareAddr = append(net.HardwareAddr{0x02}, sum[:5]...)
	bridge := &netlink.Bridge{LinkAttrs: attributes}
	if err := netlink.LinkAdd(bridge); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("making bridge %s: %w", name, err)
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("making bridge %s: %w", name, err)
	}
	if link.Type() != "bridge" {
		return fmt.Errorf("making bridge %s: an interface of type %s has this name", name, link.Type())
	}
	wanted := &net.IPNet{IP: gateway.AsSlice(), Mask: net.CIDRMask(network.Bits(), 32)}
	if err := onlyAddress(link, wanted); err != nil {
		return fmt.Errorf("giving bridge %s its address: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("starting bridge %s: %w", name, err)
	}
	return nil
}

// onlyAddress gives an interface exactly this IPv4 address: another one is left
// from an earlier Pod network.
func onlyAddress(link netlink.Link, wanted *net.IPNet) error {
	present, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return err
	}
	for _, address := range present {
		if address.IPNet.String() == wanted.String() {
			continue
		}
		if err := netlink.AddrDel(link, &address); err != nil {
			return err
		}
	}
	return netlink.AddrReplace(link, &netlink.Addr{IPNet: wanted})
}

// forwardingRecord remembers that forwarding was off before us.
func (l layout) forwardingRecord() string { return filepath.Join(l.data, "cni", "forwarding-was-off") }

func turnOnForwarding(l layout) error {
	value, err := os.ReadFile(ipForward)
	if err != nil {
		return fmt.Errorf("turning on IP forwarding: %w", err)
	}
	if strings.TrimSpace(string(value)) != "0" {
		return nil
	}
	if err := os.WriteFile(l.forwardingRecord(), nil, 0o600); err != nil {
		return fmt.Errorf("turning on IP forwarding: %w", err)
	}
	if err := os.WriteFile(ipForward, []byte("1"), 0); err != nil {
		return fmt.Errorf("turning on IP forwarding: %w", err)
	}
	return nil
}

// restoreForwarding turns forwarding off again if it was off before us and no
// other bridge is left that may rely on it by now.
func restoreForwarding(l layout) error {
	if !exists(l.forwardingRecord()) {
		return nil
	}
	bridges, err := filepath.Glob("/sys/class/net/*/bridge")
	if err != nil || len(bridges) > 0 {
		return err
	}
	if err := os.WriteFile(ipForward, []byte("0"), 0); err != nil {
		return fmt.Errorf("turning off IP forwarding: %w", err)
	}
	return nil
}

// removeNetwork takes away the bridge with what hangs on it, our iptables rules,
// and the CNI library's memory of our network.
func removeNetwork(ctx context.Context, l layout) error {
	all := func(string) bool { return true }
	err := errors.Join(removeBridge(l.bridge), releaseRules(ctx, l, all), removeSharedRules(ctx), releaseResults(l, all),
		disallowForwarding(ctx, l), restoreForwarding(l), removeTree(filepath.Join(l.data, "cni")))
	removeIfEmpty(libcniResults, filepath.Dir(libcniResults))
	return err
}

func removeBridge(name string) error {
	bridge, err := netlink.LinkByName(name)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing bridge %s: %w", name, err)
	}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("removing bridge %s: %w", name, err)
	}
	for _, link := range links {
		if link.Attrs().MasterIndex == bridge.Attrs().Index {
			_ = netlink.LinkDel(link) // it goes with its namespace, perhaps just now
		}
	}
	if err := netlink.LinkDel(bridge); err != nil {
		return fmt.Errorf("removing bridge %s: %w", name, err)
	}
	return nil
}

// removeIfEmpty removes folders that nobody uses any more, inner ones first.
func removeIfEmpty(dirs ...string) {
	for _, dir := range dirs {
		_ = os.Remove(dir) // not empty: someone else's
	}
}
