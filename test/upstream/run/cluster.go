package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// cluster is a `muster up` with everything of its own.
type cluster struct {
	muster, dir string
}

func (c *cluster) kubeconfig() string { return filepath.Join(c.dir, "data", "kubeconfig") }

// startCluster returns when the node is Ready and has the suite's images.
func startCluster(ctx context.Context, o options) (*cluster, error) {
	muster, err := filepath.Abs(filepath.Join(o.bin, "muster"))
	if err != nil {
		return nil, fmt.Errorf("finding muster: %w", err)
	}
	dir, err := os.MkdirTemp("", "upstream-")
	if err != nil {
		return nil, fmt.Errorf("making the cluster's folder: %w", err)
	}
	c := &cluster{muster: muster, dir: dir}
	ports, err := freePorts(2)
	if err == nil {
		err = c.run(ctx, "up", "--detach", "--data-dir", c.data(), "--node-name", "node-1", "--listen", ":"+ports[0],
			"--agent-port", ports[1], "--pod-cidr", o.podCIDR,
			"--pod-logs-dir", filepath.Join(dir, "pods"), "--container-logs-dir", filepath.Join(dir, "containers"))
	}
	if err == nil {
		err = c.run(ctx, "images", "import", "--data-dir", c.data(), filepath.Join(o.bin, "images.tar"))
	}
	if err != nil {
		c.purge()
		return nil, err
	}
	return c, nil
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *cluster) run(ctx context.Context, args ...string) error {
	command := exec.CommandContext(ctx, c.muster, args...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("running muster %s: %w", args[0], err)
	}
	return nil
}

// purge removes the cluster, also when the run was cut short.
func (c *cluster) purge() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := c.run(ctx, "down", "--purge", "--data-dir", c.data()); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		return
	}
	if err := os.RemoveAll(c.dir); err != nil {
		fmt.Fprintln(os.Stderr, "upstream: removing the cluster's folder:", err)
	}
}

// freePorts finds ports that nobody listens on now.
func freePorts(n int) ([]string, error) {
	var found []string
	for range n {
		listener, err := net.Listen("tcp", ":0")
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		defer listener.Close()
		_, port, err := net.SplitHostPort(listener.Addr().String())
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		found = append(found, port)
	}
	return found, nil
}
