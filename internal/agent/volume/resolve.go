package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	securejoin "github.com/cyphar/filepath-securejoin"
	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/agent/spec"
)

// Resolver answers what a Pod's containers ask about volumes, config maps and
// secrets while they are configured. It implements spec.Volumes and spec.Lookup.
type Resolver struct {
	ctx    context.Context
	m      *Manager
	pod    *v1.Pod
	mounts map[string]Mount
}

// Resolver makes one for the containers of a Pod whose volumes Prepare has
// returned. It is good for as long as ctx.
func (m *Manager) Resolver(ctx context.Context, pod *v1.Pod, mounts map[string]Mount) *Resolver {
	return &Resolver{ctx: ctx, m: m, pod: pod, mounts: mounts}
}

// Volume finds a prepared volume.
func (r *Resolver) Volume(name string) (spec.Volume, bool) {
	mount, ok := r.mounts[name]
	return spec.Volume{HostPath: mount.HostPath, ReadOnly: mount.ReadOnly}, ok
}

// ConfigMap reads a config map of the Pod's namespace.
func (r *Resolver) ConfigMap(name string) (*v1.ConfigMap, error) {
	return r.m.configMap(r.ctx, r.pod.Namespace, name, nil)
}

// Secret reads a secret of the Pod's namespace.
func (r *Resolver) Secret(name string) (*v1.Secret, error) {
	return r.m.secret(r.ctx, r.pod.Namespace, name, nil)
}

// File reads a file in a volume, never outside of it.
func (r *Resolver) File(volume, path string) ([]byte, error) {
	mount, ok := r.mounts[volume]
	if !ok {
		return nil, fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", volume)
	}
	resolved, err := securejoin.SecureJoin(mount.HostPath, path)
	if err != nil {
		return nil, fmt.Errorf("resolving %s in volume %s: %w", path, volume, err)
	}
	return os.ReadFile(resolved)
}

// SubPath is the host's path of a path in a volume; links in it are followed as if
// the volume were the root. A missing path becomes a folder with the volume's mode.
func (r *Resolver) SubPath(volume, path string, _ string, _ int) (string, error) {
	mount, ok := r.mounts[volume]
	if !ok {
		return "", fmt.Errorf("cannot find volume %q", volume)
	}
	resolved, err := securejoin.SecureJoin(mount.HostPath, path)
	if err != nil {
		return "", fmt.Errorf("resolving %s in volume %s: %w", path, volume, err)
	}
	if _, err := os.Lstat(resolved); err == nil {
		return resolved, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	info, err := os.Stat(mount.HostPath)
	if err != nil {
		return "", err
	}
	return resolved, makeLike(mount.HostPath, resolved, info.Mode().Perm())
}

// makeLike makes the missing folders from base down to path, with mode.
func makeLike(base, path string, mode fs.FileMode) error {
	relative, err := filepath.Rel(base, path)
	if err != nil {
		return err
	}
	if !filepath.IsLocal(relative) {
		return fmt.Errorf("%s is not in %s", path, base)
	}
	for _, part := range split(relative) {
		base = filepath.Join(base, part)
		if err := os.Mkdir(base, mode); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return err
		}
		if err := os.Chmod(base, mode); err != nil {
			return err
		}
	}
	return nil
}

func split(path string) []string {
	dir, last := filepath.Split(filepath.Clean(path))
	if dir == "" {
		return []string{last}
	}
	return append(split(dir), last)
}
