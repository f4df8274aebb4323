package agent

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muster.dev/muster/internal/runtime"
)

// Logs are turned over when they are this big, looked at this often, and this
// many are kept of each container, the one being written included.
const (
	logBytes    = 10 << 20
	logCheck    = 10 * time.Second
	logFiles    = 5
	logStamp    = "20060102-150405"
	compressed  = ".gz"
	unfinished  = ".tmp"
	logFileMode = 0o640
)

// rotateLogs keeps running containers' logs small until ctx ends. The runtime is
// asked only when a log is big, and once at first: an agent may have died between
// renaming a log and having it reopened.
func (p *pods) rotateLogs(ctx context.Context) {
	for done := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-p.clock.After(logCheck):
		}
		if done && !p.links.anyBig() {
			continue
		}
		found, err := p.runtime.List(ctx)
		if err != nil {
			continue // the node's status says so
		}
		for _, held := range found {
			if p.owns(held) {
				p.rotateLogsOf(ctx, held)
			}
		}
		done = true
	}
}

func (p *pods) rotateLogsOf(ctx context.Context, held runtime.Pod) {
	for _, c := range held.Containers {
		if c.State != runtime.Running {
			continue
		}
		if err := p.rotateLog(ctx, p.links.log(podOf(held), c.Name, int(c.Attempt)), c.ID); err != nil {
			p.log.Warn("Turning over a log failed, will retry", "pod", held.Namespace+"/"+held.Name, "container", c.Name, "err", err)
		}
	}
}

// anyBig says that some log must be turned over, of whatever container.
func (l logLinks) anyBig() bool {
	logs, err := filepath.Glob(filepath.Join(l.pods, "*", "*", "*.log"))
	return err != nil || slices.ContainsFunc(logs, func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() >= logBytes
	})
}

// rotateLog turns one log over if it is big: the file gets a name with the time,
// the runtime goes on in a new one, and older ones are compressed or removed.
func (p *pods) rotateLog(ctx context.Context, path, id string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p.runtime.ReopenLog(ctx, id) // an agent died between the two steps below
	}
	if err != nil || info.Size() < logBytes {
		return err
	}
	if err := tidyLogs(path); err != nil {
		return err
	}
	turned := path + "." + p.clock.Now().UTC().Format(logStamp)
	if err := os.Rename(path, turned); err != nil {
		return fmt.Errorf("turning over log: %w", err)
	}
	if err := p.runtime.ReopenLog(ctx, id); err != nil {
		return errors.Join(fmt.Errorf("reopening log: %w", err), os.Rename(turned, path))
	}
	return nil
}

// tidyLogs makes room for one more turned-over log: it compresses those there are
// and removes the oldest.
func tidyLogs(path string) error {
	old, err := filepath.Glob(path + ".*")
	if err != nil {
		return fmt.Errorf("listing logs: %w", err)
	}
	slices.SortFunc(old, func(a, b string) int { return cmp.Compare(b, a) }) // the newest first
	kept := 0
	for _, name := range old {
		if strings.HasSuffix(name, unfinished) || kept >= logFiles-2 {
			if err := os.Remove(name); err != nil {
				return fmt.Errorf("removing log: %w", err)
			}
			continue
		}
		kept++
		if !strings.HasSuffix(name, compressed) {
			if err := compress(name); err != nil {
				return fmt.Errorf("compressing log: %w", err)
			}
		}
	}
	return nil
}

// compress replaces a file by its compressed form, which is whole or not there.
func compress(path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(path+compressed+unfinished, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, logFileMode)
	if err != nil {
		return err
	}
	zipped := gzip.NewWriter(to)
	_, err = io.Copy(zipped, from)
	if err := errors.Join(err, zipped.Close(), to.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(path+compressed+unfinished, path+compressed), os.Remove(path))
}
