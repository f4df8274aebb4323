package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Known lists the Pods that have a folder on this node, volumes or not.
func (m *Manager) Known() ([]types.UID, error) {
	entries, err := os.ReadDir(filepath.Join(m.root, "pods"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing Pod folders: %w", err)
	}
	var known []types.UID
	for _, entry := range entries {
		if entry.IsDir() {
			known = append(known, types.UID(entry.Name()))
		}
	}
	return known, nil
}

// Remove takes away the Pod's volumes and its whole folder. It must only be called
// when no container of the Pod runs. It never deletes across a mount: while
// anything stays mounted below the folder it fails and deletes nothing.
func (m *Manager) Remove(ctx context.Context, uid types.UID) error {
	if name := string(uid); name == "" || name != filepath.Base(name) || name == "." || name == ".." {
		return fmt.Errorf("removing the folder of Pod %q: not a UID", uid)
	}
	dir := m.podDir(uid)
	if err := m.unmountBelow(ctx, dir); err != nil {
		return fmt.Errorf("removing the folder of Pod %s: %w", uid, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the folder of Pod %s: %w", uid, err)
	}
	m.forgetTokens(uid)
	return nil
}

// unmountBelow unmounts everything at or below dir, the deepest first, and fails
// unless nothing is left.
func (m *Manager) unmountBelow(ctx context.Context, dir string) error {
	mounts, err := m.mountsBelow(dir)
	if err != nil {
		return err
	}
	var failures []error
	for _, path := range mounts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.mounter.Unmount(path); err != nil {
			failures = append(failures, fmt.Errorf("unmounting %s: %w", path, err))
		}
	}
	left, err := m.mountsBelow(dir)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("%s is still mounted: %w", left[0], errors.Join(failures...))
	}
	return nil
}

func (m *Manager) mountsBelow(dir string) ([]string, error) {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := m.mounter.List()
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	var below []string
	for _, point := range all {
		if point.Path == real || strings.HasPrefix(point.Path, real+string(filepath.Separator)) {
			below = append(below, point.Path)
		}
	}
	slices.SortFunc(below, func(a, b string) int { return len(b) - len(a) })
	return below, nil
}
