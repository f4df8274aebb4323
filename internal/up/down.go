package up

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"muster.dev/muster/internal/host"
)

// Down stops the muster that runs on the data directory, every container it
// runs, and removes what it made on the machine; with purge also the data
// directory. Nothing of it having been there is not an error.
func Down(ctx context.Context, config Config, purge bool, progress Progress) error {
	dir, err := filepath.Abs(config.DataDir)
	if err != nil {
		return fmt.Errorf("reading the data directory %q: %w", config.DataDir, err)
	}
	config.DataDir = dir
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		progress.Say("nothing to stop: there is no " + dir)
		return nil
	}
	if pid := Holder(dir); pid != 0 {
		progress.Say(fmt.Sprintf("stopping muster (process %d)", pid))
	}
	if err := Stop(dir); err != nil {
		return err
	}
	lock, err := TakeLock(dir)
	if err != nil {
		return err
	}
	defer lock.Release()
	progress.Say("stopping containers and removing what muster made")
	if err := host.Remove(ctx, config.hostOptions(progress.Say), purge); err != nil {
		return fmt.Errorf("removing what muster made: %w", err)
	}
	progress.Say("down")
	return nil
}

// Import puts the images of an archive into the cluster's containerd and returns
// their names.
func Import(ctx context.Context, config Config, archive string) ([]string, error) {
	dir, err := filepath.Abs(config.DataDir)
	if err != nil {
		return nil, fmt.Errorf("reading the data directory %q: %w", config.DataDir, err)
	}
	config.DataDir = dir
	return host.Import(ctx, config.hostOptions(func(string) {}), archive)
}
