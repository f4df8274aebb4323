package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

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

// SubPath is the host's path of a path in a volume, as one mount of one container
// sees it.
func (r *Resolver) SubPath(volume, path, container string, index int) (string, error) {
	mount, ok := r.mounts[volume]
	if !ok {
		return "", fmt.Errorf("cannot find volume %q", volume)
	}
	target := filepath.Join(r.m.podDir(r.pod.UID), "volume-subpaths", volume, container, strconv.Itoa(index))
	return r.m.subPath(mount.HostPath, path, target)
}
