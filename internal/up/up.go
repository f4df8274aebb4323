package up

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/server/healthz"

	"muster.dev/muster/internal/apiserver"
	"muster.dev/muster/internal/host"
	"muster.dev/muster/internal/pki"
	"muster.dev/muster/internal/runtime/cri"
	"muster.dev/muster/internal/store"
)

// stopTimeout bounds each part's way down; containers are not part of it.
const stopTimeout = 20 * time.Second

// machine is one machine's cluster while it comes up and runs.
type machine struct {
	config Config
	say    func(string)

	containerd *host.Containerd
	pki        *pki.PKI
	server     *apiserver.Server
	runtime    *cri.Client
	address    net.IP

	// undo takes down what was started, last first.
	undo []func() error
}

// Run brings a one-machine cluster up and keeps it up until ctx ends or a part of
// it fails. It stops what runs in this process, last started first; containerd
// and the containers stay. The end of ctx is not an error.
func Run(ctx context.Context, config Config, progress Progress) (err error) {
	config, err = config.withDefaults()
	if err != nil {
		return err
	}
	lock, err := TakeLock(config.DataDir)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := config.save(); err != nil {
		return err
	}
	if err := preflight(ctx, config, progress.Say); err != nil {
		return err
	}
	m := &machine{config: config, say: progress.Say}
	defer func() { err = errors.Join(err, m.stop()) }()
	if err := m.start(ctx); err != nil {
		return unlessEnded(ctx, err)
	}
	return unlessEnded(ctx, m.serve(ctx, progress))
}

// unlessEnded is err, or nil when ctx ended: then everything fails, as it should.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// preflight checks the machine and says, for each thing that is missing, what to do.
func preflight(ctx context.Context, config Config, say func(string)) error {
	checks, err := host.Preflight(ctx, config.hostOptions(say))
	if err != nil {
		return fmt.Errorf("checking the machine: %w", err)
	}
	failed := 0
	for _, check := range checks {
		if !check.OK {
			failed++
			say(fmt.Sprintf("✗ %s: %s\n    %s", check.Name, check.Detail, check.Remedy))
		}
	}
	if failed > 0 {
		return fmt.Errorf("the machine is not ready for Pods: %d of %d checks failed", failed, len(checks))
	}
	return nil
}

// start brings up what the loops and the agent stand on. containerd and the API
// server do not need each other, so they start side by side.
func (m *machine) start(ctx context.Context) error {
	gateway := m.config.PodCIDR.Masked().Addr().Next()
	m.address = m.config.address(gateway)
	if m.address.Equal(net.IP(gateway.AsSlice())) {
		// The API server is to listen on the bridge, which must be there first.
		if err := m.startHost(ctx); err != nil {
			return err
		}
		return m.startControlPlane(ctx, gateway)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.startHost(ctx) })
	group.Go(func() error { return m.startControlPlane(ctx, gateway) })
	return group.Wait()
}

func (m *machine) startHost(ctx context.Context) error {
	m.say("starting containerd")
	containerd, err := host.Start(ctx, m.config.hostOptions(m.say))
	if err != nil {
		return fmt.Errorf("starting containerd: %w", err)
	}
	m.containerd = containerd
	m.runtime, err = cri.New(cri.Options{Endpoint: containerd.Endpoint()})
	if err != nil {
		return fmt.Errorf("connecting to containerd: %w", err)
	}
	return nil
}

func (m *machine) startControlPlane(ctx context.Context, gateway netip.Addr) error {
	m.say("starting the API server")
	var err error
	if m.pki, err = pki.Open(m.config.path("pki"), time.Now); err != nil {
		return err
	}
	objects, err := store.Start(ctx, store.Options{Dir: m.config.path("store")})
	if err != nil {
		return err
	}
	m.undo = append(m.undo, objects.Close)
	m.server, err = apiserver.Start(ctx, apiserver.Options{
		PKI: m.pki, Etcd: []string{objects.Endpoint()},
		Listen: m.config.Listen, Advertise: m.address,
		Names: []string{m.config.NodeName}, IPs: []net.IP{net.IP(gateway.AsSlice())},
		ServiceCIDR: m.config.ServiceCIDR,
		Health:      []healthz.HealthChecker{objects},
	})
	if err != nil {
		return err
	}
	m.undo = append(m.undo, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		return m.server.Shutdown(ctx)
	})
	admin, err := m.pki.Admin()
	if err != nil {
		return fmt.Errorf("making the administrator's certificate: %w", err)
	}
	return m.pki.WriteKubeconfig(m.config.Kubeconfig(), m.server.URL, admin)
}

// stop takes down what was started, last first.
func (m *machine) stop() error {
	var problems []error
	for i := len(m.undo) - 1; i >= 0; i-- {
		problems = append(problems, m.undo[i]())
	}
	if m.runtime != nil {
		problems = append(problems, m.runtime.Close())
	}
	if m.containerd != nil {
		problems = append(problems, m.containerd.Close())
	}
	return errors.Join(problems...)
}

// keepContainerd starts containerd again when it ends by itself; its containers
// live on meanwhile.
func (m *machine) keepContainerd(ctx context.Context) error {
	for {
		if err := m.containerd.Wait(ctx); err != nil || ctx.Err() != nil {
			return unlessEnded(ctx, err)
		}
		slog.Warn("containerd ended; starting it again", "log", m.containerd.LogFile())
		containerd, err := host.Start(ctx, m.config.hostOptions(m.say))
		if err != nil {
			return unlessEnded(ctx, fmt.Errorf("starting containerd again: %w", err))
		}
		if err := m.containerd.Close(); err != nil {
			slog.Warn("closing the connection to the containerd that ended", "err", err)
		}
		m.containerd = containerd
	}
}
