package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/util/wait"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// startTimeout bounds a start of containerd; a cold one takes well under a second.
const startTimeout = time.Minute

func (c *Containerd) bringUp(ctx context.Context) error {
	tools := findTools(c.layout.data)
	if missing := tools.missing(); missing != nil {
		return missing
	}
	settings := tools.settings(c.layout)
	c.systemd = settings.systemdCgroup
	if err := c.setUpNetwork(ctx); err != nil {
		return err
	}
	if err := makeCgroups(c.layout, c.systemd); err != nil {
		return err
	}
	held, err := c.run(ctx, tools, settings)
	if err != nil {
		return err
	}
	if err := c.storeSandboxImage(ctx); err != nil {
		return err
	}
	return c.releaseStale(ctx, held)
}

// run adopts the containerd that is there, or starts one. In that case it returns
// the addresses that were reserved before: one that ran all along has kept them
// in order itself.
func (c *Containerd) run(ctx context.Context, tools tools, settings containerdSettings) ([]reservation, error) {
	config := renderContainerd(settings)
	hash := sha256.Sum256([]byte(tools.containerd.path + tools.containerd.version + config))
	started := process{Settings: hex.EncodeToString(hash[:]), Snapshotter: settings.snapshotter}
	recorded := readProcess(c.layout.record)
	if recorded.running() && recorded.Settings == started.Settings && exists(c.layout.socket) {
		c.process = recorded
		if err := c.connect(ctx, 10*time.Second); err == nil {
			c.adopted = true
			return nil, nil
		}
		// It runs but does not answer: restart it.
	}
	if err := endContainerd(ctx, c.layout); err != nil {
		return nil, err
	}
	if err := c.forgetOldBoot(recorded); err != nil {
		return nil, err
	}
	held, err := reservations(c.layout)
	if err != nil {
		return nil, err
	}
	if err := replaceFile(c.layout.config, []byte(config), 0o600); err != nil {
		return nil, err
	}
	if err := c.spawn(tools, started); err != nil {
		return nil, err
	}
	if err := c.connect(ctx, startTimeout); err != nil {
		return nil, fmt.Errorf("%w\nThe end of %s:\n%s", err, c.layout.log, tail(c.layout.log, 15))
	}
	return held, nil
}

// forgetOldBoot clears what stood for processes and mounts of an earlier boot:
// the state folder should be a tmpfs, but is kept with everything else.
func (c *Containerd) forgetOldBoot(recorded process) error {
	boot, err := bootID()
	if err != nil || recorded.Boot == "" || recorded.Boot == boot {
		return err
	}
	if err := removeTree(c.layout.state); err != nil {
		return err
	}
	return os.MkdirAll(c.layout.state, 0o711)
}

// spawn starts containerd in a session of its own, so that neither Ctrl-C in our
// terminal nor our own end reaches it.
func (c *Containerd) spawn(tools tools, started process) error {
	log, err := openLog(c.layout.log)
	if err != nil {
		return err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return fmt.Errorf("starting containerd: %w", err)
	}
	defer null.Close()
	child, err := os.StartProcess(tools.containerd.path, []string{"containerd", "--config", c.layout.config}, &os.ProcAttr{
		Dir: c.layout.dir, Env: tools.environment(), Files: []*os.File{null, log, log},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("starting containerd: %w", err)
	}
	if c.process, err = identify(child.Pid); err != nil {
		return fmt.Errorf("starting containerd: it ended at once: %w\nThe end of %s:\n%s", err, c.layout.log, tail(c.layout.log, 15))
	}
	c.process.Settings, c.process.Snapshotter = started.Settings, started.Snapshotter
	if err := c.process.write(c.layout.record); err != nil {
		return err
	}
	if err := child.Release(); err != nil { // watched and reaped through process.wait
		return fmt.Errorf("starting containerd: %w", err)
	}
	return joinRuntimeCgroup(c.layout, c.process.PID)
}

// connect waits until containerd answers CRI calls, until it ends, or timeout.
func (c *Containerd) connect(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
	defer cancel()
	ended := make(chan error, 1)
	watch, stop := context.WithCancel(ctx)
	go func() {
		err := c.process.wait(watch)
		if err == nil {
			cancel()
		}
		ended <- err
	}()
	err := c.dial(ctx)
	stop()
	if gone := <-ended; gone == nil {
		err = errors.New("it ended")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("waiting for containerd: %w", err), c.Close())
	}
	return nil
}

func (c *Containerd) dial(ctx context.Context) error {
	conn, err := dialContainerd(c.layout.socket)
	if err != nil {
		return err
	}
	c.conn = conn
	var last error
	// gRPC waits for the socket; the CRI part answers a little later than the
	// socket is there, and has no way to announce it.
	err = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, last = cri.NewRuntimeServiceClient(conn).Version(ctx, &cri.VersionRequest{}, grpc.WaitForReady(true))
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(context.Cause(ctx), last)
	}
	return nil
}

// dialContainerd opens a connection lazily: the first call connects.
func dialContainerd(socket string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
			Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 200 * time.Millisecond}}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		return nil, fmt.Errorf("connecting to containerd: %w", err)
	}
	return conn, nil
}

func (c *Containerd) storeSandboxImage(ctx context.Context) error {
	sandbox, err := sandboxImage()
	if err != nil {
		return err
	}
	if err := c.storeImage(ctx, sandbox, pinned); err != nil {
		return fmt.Errorf("storing the sandbox image: %w", err)
	}
	return nil
}

// endContainerd ends every containerd that runs on our configuration: the one on
// record, and one that was started just before its starter was killed.
func endContainerd(ctx context.Context, l layout) error {
	found, err := withArgument(l.config)
	if err != nil {
		return err
	}
	for _, p := range found {
		if !p.isProgram("containerd") {
			continue
		}
		if err := p.end(ctx, 10*time.Second); err != nil {
			return fmt.Errorf("ending containerd: %w", err)
		}
	}
	return nil
}
