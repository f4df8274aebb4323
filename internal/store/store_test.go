package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func start(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

func client(t *testing.T, s *Store) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{s.Endpoint()}, DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestWhatIsWrittenIsThereAfterARestart(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	first := start(t, Options{Dir: dir})
	if _, err := client(t, first).Put(ctx, "/a", "1"); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := client(t, start(t, Options{Dir: dir})).Get(ctx, "/a")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "1" {
		t.Errorf("read back %v", got.Kvs)
	}
}

func TestASecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := start(t, Options{Dir: dir})
	_, err := Start(context.Background(), Options{Dir: dir})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("a second start gives: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, Options{Dir: dir})
}

func TestOnlyTheOwnerCanEnterAndNoPortIsOpen(t *testing.T) {
	before := listening(t)
	s := start(t, Options{Dir: filepath.Join(t.TempDir(), "store")})
	for _, dir := range []string{filepath.Dir(s.sockets.path), s.sockets.path} {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o700 {
			t.Errorf("%s has mode %o", dir, mode)
		}
	}
	for _, socket := range []string{s.sockets.client(), s.sockets.peer()} {
		if info, err := os.Stat(socket); err != nil || info.Mode().Type() != os.ModeSocket {
			t.Errorf("%s is no socket: %v, %v", socket, info, err)
		}
	}
	for inode, address := range listening(t) {
		if _, had := before[inode]; !had {
			t.Errorf("the store listens on %s", address)
		}
	}
}

// listening maps the socket inodes of this process that listen on TCP to their
// local addresses, as the kernel writes them.
func listening(t *testing.T) map[string]string {
	t.Helper()
	mine := map[string]bool{}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		target, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if inode, ok := strings.CutPrefix(target, "socket:["); err == nil && ok {
			mine[strings.TrimSuffix(inode, "]")] = true
		}
	}
	const stateListen, columnAddress, columnState, columnInode = "0A", 1, 3, 9
	found := map[string]string{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		data, err := os.ReadFile(table)
		if os.IsNotExist(err) {
			continue // no such protocol on this machine
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) > columnInode && f[columnState] == stateListen && mine[f[columnInode]] {
				found[f[columnInode]] = f[columnAddress]
			}
		}
	}
	return found
}

func TestALongDirectoryGetsItsSocketsElsewhere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	s := start(t, Options{Dir: dir})
	if _, err := client(t, s).Put(context.Background(), "/a", "1"); err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(s.sockets.path, dir) {
		t.Errorf("sockets are in %s", s.sockets.path)
	}
	if info, err := os.Stat(s.sockets.path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v, %v", s.sockets.path, info, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.sockets.path); !os.IsNotExist(err) {
		t.Errorf("%s is left behind: %v", s.sockets.path, err)
	}
}

// lockedBuffer collects a log that several goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestTheQuotaIsReportedBeforeItIsReached(t *testing.T) {
	var log lockedBuffer
	s := start(t, Options{
		Dir: t.TempDir(), Quota: 32 << 20,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err := s.Check(nil); err != nil {
		t.Fatalf("an empty store complains: %v", err)
	}
	c := client(t, s)
	value := strings.Repeat("x", 256<<10)
	for i := 0; !s.Usage().Near(); i++ {
		if _, err := c.Put(context.Background(), fmt.Sprint("/", i), value); err != nil {
			t.Fatalf("a write was refused before the quota was near (%s): %v", s.Usage(), err)
		}
		s.etcd.Server.Backend().ForceCommit() // the size is that of the last commit
	}
	if err := s.Check(nil); err == nil || !strings.Contains(err.Error(), "quota of 32 MiB") {
		t.Errorf("the check says %v", err)
	}
	if !s.reportQuota(false) || !strings.Contains(log.String(), "store quota is near") {
		t.Errorf("the log says %q", log.String())
	}
	if _, err := c.Put(context.Background(), "/still", "writable"); err != nil {
		t.Errorf("a write is refused already: %v", err)
	}
}

func TestFreePagesAreGivenBack(t *testing.T) {
	s := start(t, Options{Dir: t.TempDir(), Quota: 32 << 20, Logger: slog.New(slog.DiscardHandler)})
	c := client(t, s)
	ctx := context.Background()
	value := strings.Repeat("x", 256<<10)
	var revision int64
	for !s.Usage().Near() {
		put, err := c.Put(ctx, "/one", value)
		if err != nil {
			t.Fatal(err)
		}
		revision = put.Header.Revision
		s.etcd.Server.Backend().ForceCommit()
	}
	if _, err := c.Compact(ctx, revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	// The pages are free once etcd has committed the compaction, within its
	// batch interval of 100 ms.
	for deadline := time.Now().Add(10 * time.Second); !s.Usage().reclaimable(); {
		if time.Now().After(deadline) {
			t.Fatalf("nothing became free: %s", s.Usage())
		}
		s.etcd.Server.Backend().ForceCommit()
	}
	s.shrink()
	if u := s.Usage(); u.Near() {
		t.Errorf("after shrinking: %s", u)
	}
	if got, err := c.Get(ctx, "/one"); err != nil || len(got.Kvs) != 1 {
		t.Errorf("reading back: %v, %v", got, err)
	}
}

func TestADamagedDirectoryIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "etcd"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(context.Background(), Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)}); err == nil {
		t.Fatal("a file in the data's place was taken for it")
	}
	if err := os.Remove(filepath.Join(dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	start(t, Options{Dir: dir}) // the failed start left no lock behind
}
