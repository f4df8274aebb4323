// Package store keeps the cluster's state: one etcd member inside this process,
// reached over a unix socket in a directory only its owner can enter. No TCP
// port is opened, neither for clients nor for peers.
//
// It owns the data directory (one process at a time), the sockets, compaction's
// floor and the watch on the size quota. It never looks into what is stored and
// never decides who may read it: its only client is the API server. Tests stand
// next to it; those that need a whole cluster are in internal/apiserver.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

const (
	// DefaultQuota is the size in bytes at which the store refuses writes. It is
	// far above what a fleet's objects need, and what a node's disk can spare.
	DefaultQuota = 4 << 30
	// startTimeout bounds replaying the log of a large store on a slow disk.
	startTimeout = 2 * time.Minute
	// tickMillis and electionMillis are how long a member waits before it makes
	// itself the leader. A single one has nobody to wait for, and every start does.
	tickMillis, electionMillis = 50, 250
	// slow is how long a request may take before the log says so: a busy small
	// machine is often slower than etcd's own tenth of a second.
	slow = time.Second
	// defragMegabytes is how much space must be reclaimable before a start spends
	// time on rewriting the file.
	defragMegabytes = 64
)

// Options say where the store lives and how large it may grow.
type Options struct {
	// Dir holds the data, the lock and, where its path is short enough, the
	// sockets. It is created with mode 0700.
	Dir string
	// Quota is the size limit in bytes; 0 means DefaultQuota.
	Quota int64
	// Logger takes the store's own messages; nil means slog's default.
	Logger *slog.Logger
}

// Store is a running etcd member. Close it only after everything that reads or
// writes through it has ended.
type Store struct {
	etcd    *embed.Etcd
	lock    *dirLock
	sockets *socketDir
	quota   int64
	log     *slog.Logger
	level   zap.AtomicLevel // of etcd's own messages

	stop      context.CancelFunc
	watchDone chan struct{}
	closeOnce sync.Once
	closeErr  error
}

// Start opens the store in o.Dir, creating it on first use, and returns once it
// serves. It fails with ErrInUse when another process holds the directory.
func Start(ctx context.Context, o Options) (*Store, error) {
	if o.Quota == 0 {
		o.Quota = DefaultQuota
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if err := privateDir(o.Dir); err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("opening the store in %s: %w", o.Dir, err)
	}
	sockets, err := openSocketDir(o.Dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the store in %s: %w", o.Dir, err), lock.release())
	}
	s := &Store{
		lock: lock, sockets: sockets, quota: o.Quota, log: o.Logger,
		level: zap.NewAtomicLevelAt(levelStarting), watchDone: make(chan struct{}),
	}
	if err := s.serve(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the store in %s: %w", o.Dir, err), sockets.remove(), lock.release())
	}
	var watch context.Context
	watch, s.stop = context.WithCancel(context.Background())
	go s.watchQuota(watch)
	return s, nil
}

// serve starts etcd and waits until it answers.
func (s *Store) serve(ctx context.Context, o Options) error {
	e, err := embed.StartEtcd(s.config(o))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-e.Server.ReadyNotify():
		s.etcd = e
		s.level.SetLevel(levelRunning)
		return nil
	case err = <-e.Err():
	case <-e.Server.StopNotify():
		err = errors.New("it stopped while starting")
	case <-ctx.Done():
		err = fmt.Errorf("it was not ready in time: %w", ctx.Err())
	}
	e.Close()
	return err
}

// config turns the options into etcd's own. fsync stays on: what the API server
// has acknowledged is on disk.
func (s *Store) config(o Options) *embed.Config {
	client := url.URL{Scheme: "unix", Path: s.sockets.client()}
	peer := url.URL{Scheme: "unix", Path: s.sockets.peer()}

	c := embed.NewConfig()
	c.Name = "muster"
	c.Dir = filepath.Join(o.Dir, "etcd")
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	// The peer listener takes the socket's path from the host part.
	c.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: s.sockets.peer()}}
	c.AdvertisePeerUrls = []url.URL{peer}
	c.InitialCluster = c.Name + "=" + peer.String()
	c.EnableGRPCGateway = false
	c.TickMs, c.ElectionMs = tickMillis, electionMillis
	c.QuotaBackendBytes = o.Quota
	// The API server compacts every five minutes; this is the floor for the time
	// when no API server runs against the store.
	c.AutoCompactionMode = embed.CompactorModePeriodic
	c.AutoCompactionRetention = "1h"
	c.BootstrapDefragThresholdMegabytes = defragMegabytes
	c.WarningApplyDuration, c.WarningUnaryRequestDuration = slow, slow
	c.LogLevel = "warn"
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapTo(o.Logger, s.level))
	return c
}

// Endpoint is the address clients in this process connect to.
func (s *Store) Endpoint() string { return "unix://" + s.sockets.client() }

// Close stops etcd, waits for it and frees the directory. Repeating it is safe.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.stop()
		<-s.watchDone
		s.level.SetLevel(levelClosing)
		s.etcd.Close()
		s.closeErr = errors.Join(s.sockets.remove(), s.lock.release())
	})
	return s.closeErr
}

// privateDir makes dir and takes others' rights away from it.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}
