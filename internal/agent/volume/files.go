package volume

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
)

// WriteHosts puts the Pod's /etc/hosts in place and returns its path on the host.
// The file is written over rather than replaced, and only when it changes: running
// containers have it mounted.
func (m *Manager) WriteHosts(uid types.UID, content []byte) (string, error) {
	path := filepath.Join(m.podDir(uid), "etc-hosts")
	if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, content) {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return "", fmt.Errorf("writing the hosts file of Pod %s: %w", uid, err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return "", fmt.Errorf("writing the hosts file of Pod %s: %w", uid, err)
	}
	return path, os.Chmod(path, 0o644)
}

// TerminationFile makes the empty file into which one run of a container writes
// its last words, and returns its path on the host.
func (m *Manager) TerminationFile(uid types.UID, container string, attempt uint32) (string, error) {
	dir := filepath.Join(m.podDir(uid), "containers", container)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("making the termination message of %s: %w", container, err)
	}
	path := filepath.Join(dir, fmt.Sprintf("%08x", attempt))
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		return "", fmt.Errorf("making the termination message of %s: %w", container, err)
	}
	return path, os.Chmod(path, 0o666) // whoever the container runs as must be able to write
}
