package store

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	// quotaWarning is the part of the quota from which its approach is reported.
	quotaWarning = 0.8
	// quotaInterval is how often the size is looked at. The size is a field in
	// memory, so looking is cheap.
	quotaInterval = 30 * time.Second
)

// Usage is how much of its quota the store holds, in bytes.
type Usage struct {
	// Size is the size of the file, which is what the quota counts.
	Size int64
	// InUse is the part of it that live data needs; the rest is free pages that
	// later writes take again and that rewriting the file gives back.
	InUse int64
	// Quota is the size at which writes are refused.
	Quota int64
}

// Near says whether the quota is close enough to be reported.
func (u Usage) Near() bool { return float64(u.Size) >= quotaWarning*float64(u.Quota) }

// reclaimable says whether rewriting the file would at least halve it.
func (u Usage) reclaimable() bool { return u.InUse <= u.Size/2 }

// String says it for a person.
func (u Usage) String() string {
	const mib = 1 << 20
	return fmt.Sprintf("%d MiB in use of a quota of %d MiB (file: %d MiB)", u.InUse/mib, u.Quota/mib, u.Size/mib)
}

// Usage says how full the store is.
func (s *Store) Usage() Usage {
	backend := s.etcd.Server.Backend()
	return Usage{Size: backend.Size(), InUse: backend.SizeInUse(), Quota: s.quota}
}

// Name is the health check's name in /readyz.
func (s *Store) Name() string { return "store-quota" }

// Check fails while the quota is near. As a health check it says so to whoever
// asks, before the first write is refused.
func (s *Store) Check(*http.Request) error {
	if u := s.Usage(); u.Near() {
		return fmt.Errorf("the store is nearly full: %s: delete objects or raise the quota", u)
	}
	return nil
}

// watchQuota reports in the log when the quota comes near, and when it is far
// again: once each, not at every look. Where the file is mostly free pages it is
// rewritten, which holds up requests for a moment but keeps writes possible.
func (s *Store) watchQuota(ctx context.Context) {
	defer close(s.watchDone)
	tick := time.NewTicker(quotaInterval)
	defer tick.Stop()
	near := false
	for {
		near = s.reportQuota(near)
		if near && s.Usage().reclaimable() {
			s.shrink()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// reportQuota logs a change between near and far, and returns what holds now.
func (s *Store) reportQuota(wasNear bool) bool {
	u := s.Usage()
	near := u.Near()
	switch {
	case near && !wasNear:
		s.log.Warn("store quota is near", "inUse", u.InUse, "size", u.Size, "quota", u.Quota)
	case !near && wasNear:
		s.log.Info("store quota is no longer near", "inUse", u.InUse, "size", u.Size, "quota", u.Quota)
	}
	return near
}

// shrink rewrites the file without its free pages.
func (s *Store) shrink() {
	if err := s.etcd.Server.Backend().Defrag(); err != nil {
		s.log.Error("store could not be shrunk", "err", err)
		return
	}
	s.log.Info("store was shrunk", "size", s.Usage().Size)
}
