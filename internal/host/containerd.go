package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"google.golang.org/grpc"
)

// criNamespace is where containerd's CRI plugin keeps Pods and images.
const criNamespace = "k8s.io"

// Containerd is muster's own running containerd and the network around it. It
// outlives this process; only Remove ends it.
type Containerd struct {
	layout  layout
	options Options
	systemd bool
	process process
	conn    *grpc.ClientConn
	adopted bool
}

// Start makes the machine able to run Pods: network, cgroups, containerd and the
// sandbox image. A containerd that a former call started and that still fits is
// adopted with all its containers; one whose settings changed is restarted,
// which its containers survive. Start leaves everything in place when it fails:
// calling it again goes on, Remove takes it away.
//
// The caller ends the connection with Close; containerd itself keeps running.
func Start(ctx context.Context, options Options) (*Containerd, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	l := newLayout(options.DataDir)
	for _, dir := range []string{l.data, l.dir, l.root, l.state, l.cni, l.cniState} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("making %s: %w", dir, err)
		}
	}
	if err := os.Chmod(l.dir, 0o700); err != nil { // the socket is root on this machine
		return nil, fmt.Errorf("closing %s: %w", l.dir, err)
	}
	unlock, err := lockFile(ctx, l.lock)
	if err != nil {
		return nil, err
	}
	defer unlock()
	c := &Containerd{layout: l, options: options}
	if err := c.bringUp(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close ends the connection; containerd and its containers keep running.
func (c *Containerd) Close() error {
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn = nil
	return err
}

// Wait returns nil when containerd has ended, for whatever reason, or ctx's
// error. After it, Start brings everything back.
func (c *Containerd) Wait(ctx context.Context) error { return c.process.wait(ctx) }

// Endpoint is the CRI address, for clients.
func (c *Containerd) Endpoint() string { return "unix://" + c.layout.socket }

// Gateway is the bridge's address in the Pod network: Pods reach this machine by it.
func (c *Containerd) Gateway() netip.Addr { return c.options.gateway() }

// PodCIDR is the Pod network of this machine.
func (c *Containerd) PodCIDR() netip.Prefix { return c.options.PodCIDR }

// CgroupParent is where Pods' cgroups belong: a path for the cgroupfs driver, a
// slice's name for the systemd driver.
func (c *Containerd) CgroupParent() string { return c.layout.podCgroup(c.systemd) }

// CgroupDriver is "cgroupfs" or "systemd".
func (c *Containerd) CgroupDriver() string {
	if c.systemd {
		return "systemd"
	}
	return "cgroupfs"
}

// PID is containerd's process number.
func (c *Containerd) PID() int { return c.process.PID }

// Adopted says that containerd was already running.
func (c *Containerd) Adopted() bool { return c.adopted }

// LogFile is where containerd's own output goes.
func (c *Containerd) LogFile() string { return c.layout.log }
