package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"muster.dev/muster/internal/runtime/cri"
)

// measureStarts measures `muster up` to a Ready node, in a fresh directory and
// again in the same one, each next to a bare containerd's start to its first
// answer in a fresh directory and again.
func measureStarts(ctx context.Context, o options, dir string) ([]row, error) {
	cold := row{name: "up-cold", what: "muster up to node Ready, fresh", peer: "bare containerd start"}
	warm := row{name: "up-warm", what: "muster up to node Ready, again", peer: "bare containerd start"}
	for i := range o.starts {
		floor := bareContainerd{dir: filepath.Join(dir, fmt.Sprint("bare-", i))}
		if err := pairs(i, func() error { return floor.startTwice(ctx, &cold, &warm) },
			func() error { return upTwice(ctx, o, filepath.Join(dir, fmt.Sprint("up-", i)), &cold, &warm) }); err != nil {
			return nil, err
		}
	}
	return []row{cold, warm}, nil
}

// pairs runs two measures one after the other, in turns which first, so that what
// drifts on the machine meets both.
func pairs(i int, a, b func() error) error {
	if i%2 == 1 {
		a, b = b, a
	}
	if err := a(); err != nil {
		return err
	}
	return b()
}

func upTwice(ctx context.Context, o options, dir string, cold, warm *row) (err error) {
	c, err := newCluster(o.binary, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.purge()) }()
	up := func(r *row) error {
		began := time.Now()
		err := c.up(ctx)
		r.took(time.Since(began))
		return err
	}
	if err := up(cold); err != nil {
		return err
	}
	if err := c.stop(); err != nil {
		return err
	}
	return up(warm)
}

// bareContainerd is a containerd with nothing above it.
type bareContainerd struct{ dir string }

func (b bareContainerd) startTwice(ctx context.Context, cold, warm *row) error {
	if err := os.MkdirAll(b.dir, 0o711); err != nil {
		return err
	}
	config := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.internal.v1.opt\"]\n[grpc]\naddress = %q\n"+
		"[plugins.\"io.containerd.grpc.v1.cri\"]\ndisable_tcp_service = true\nstream_server_port = \"0\"\n",
		b.dir+"/root", b.dir+"/state", b.dir+"/sock")
	if err := os.WriteFile(b.dir+"/config.toml", []byte(config), 0o600); err != nil {
		return err
	}
	for _, r := range []*row{cold, warm} {
		if err := b.start(ctx, r); err != nil {
			return fmt.Errorf("starting a bare containerd: %w", err)
		}
	}
	return nil
}

// start measures one start and ends containerd again.
func (b bareContainerd) start(ctx context.Context, r *row) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := cri.New(cri.Options{Endpoint: "unix://" + b.dir + "/sock"})
	if err != nil {
		return err
	}
	defer client.Close()
	process := exec.Command("containerd", "--config", b.dir+"/config.toml")
	began := time.Now()
	if err := process.Start(); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, process.Process.Signal(os.Interrupt))
		_ = process.Wait() // ends as it was told to
	}()
	for {
		if _, err = client.Info(ctx); err == nil {
			r.peerTook(time.Since(began))
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(5 * time.Millisecond): // it has no way to say that it is there
		}
	}
}
