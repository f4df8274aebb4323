package store

import (
	"fmt"
	"os"
	"path/filepath"
)

// maxSocketPath is what the kernel takes for a unix socket's path, without the
// closing zero byte.
const maxSocketPath = 107

// socketDir is the private directory that holds the two sockets.
type socketDir struct {
	path      string
	temporary bool
}

// openSocketDir puts the sockets under the data directory, or, where that path
// is too long for the kernel, into a temporary directory of mode 0700.
func openSocketDir(dataDir string) (*socketDir, error) {
	abs, err := filepath.Abs(dataDir)
	if err != nil {
		return nil, err
	}
	d := &socketDir{path: filepath.Join(abs, "sockets")}
	if len(d.client()) <= maxSocketPath {
		if err := privateDir(d.path); err != nil {
			return nil, fmt.Errorf("making the socket directory: %w", err)
		}
		return d, nil
	}
	d.path, err = os.MkdirTemp("", "muster-store-")
	if err != nil {
		return nil, fmt.Errorf("making the socket directory: %w", err)
	}
	d.temporary = true
	return d, nil
}

func (d *socketDir) client() string { return filepath.Join(d.path, "client.sock") }
func (d *socketDir) peer() string   { return filepath.Join(d.path, "peer.sock") }

// remove deletes what would otherwise be left behind outside the data directory.
func (d *socketDir) remove() error {
	if !d.temporary {
		return nil
	}
	return os.RemoveAll(d.path)
}
