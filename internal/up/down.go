package up

import (
	"context"
	"errors"
	"fmt"
	"os"

	"muster.dev/muster/internal/host"
)

// Down stops the muster that runs on the data directory, every container it
// runs, and removes what it made on the machine; with purge also the data
// directory. Nothing of it having been there is not an error.
func Down(ctx context.Context, dataDir string, purge bool, progress Progress) error {
	config, err := saved(dataDir)
	if errors.Is(err, errDamaged) { // who cleans up must not need a whole directory
		progress.Say(err.Error() + "; going on with the defaults, which leaves Pod logs in folders of your own choice")
	} else if err != nil {
		return err
	}
	dir := config.DataDir
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
func Import(ctx context.Context, dataDir, archive string) ([]string, error) {
	config, err := saved(dataDir)
	if err != nil && !errors.Is(err, errDamaged) { // where containerd is, the directory alone tells
		return nil, err
	}
	return host.Import(ctx, config.hostOptions(func(string) {}), archive)
}
