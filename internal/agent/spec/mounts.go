package spec

import (
	"fmt"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

const etcHosts = "/etc/hosts"

// containerMounts are the container's volume mounts in the manifest's order, then
// its /etc/hosts (unless it mounts one itself) and the file for its last words.
func containerMounts(in ContainerInput, env []v1.EnvVar) ([]*cri.Mount, error) {
	if len(in.Container.VolumeDevices) > 0 {
		return nil, fmt.Errorf("muster does not act on volumeDevices of container %q; mount a volume with a file system instead", in.Container.Name)
	}
	var mounts []*cri.Mount
	ownHosts := false
	for i, mount := range in.Container.VolumeMounts {
		made, err := volumeMount(in, mount, i, env)
		if err != nil {
			return nil, err
		}
		ownHosts = ownHosts || made.ContainerPath == etcHosts
		mounts = append(mounts, made)
	}
	if in.HostsFile != "" && !ownHosts {
		mounts = append(mounts, &cri.Mount{ContainerPath: etcHosts, HostPath: in.HostsFile, SelinuxRelabel: true})
	}
	if in.TerminationFile != "" && in.Container.TerminationMessagePath != "" {
		mounts = append(mounts, &cri.Mount{
			ContainerPath: in.Container.TerminationMessagePath, HostPath: in.TerminationFile, SelinuxRelabel: true,
		})
	}
	return mounts, nil
}

func volumeMount(in ContainerInput, mount v1.VolumeMount, index int, env []v1.EnvVar) (*cri.Mount, error) {
	volume, ok := in.Volumes.Volume(mount.Name)
	if !ok {
		return nil, fmt.Errorf("cannot find volume %q to mount into container %q", mount.Name, in.Container.Name)
	}
	hostPath, err := mountSource(in, mount, index, volume, env)
	if err != nil {
		return nil, err
	}
	recursive, err := recursiveReadOnly(mount, in.Node)
	if err != nil {
		return nil, err
	}
	propagation, err := propagation(mount)
	if err != nil {
		return nil, err
	}
	target := mount.MountPath
	if !filepath.IsAbs(target) {
		target = filepath.Join("/", target)
	}
	return &cri.Mount{
		ContainerPath:     target,
		HostPath:          hostPath,
		Readonly:          mount.ReadOnly || volume.ReadOnly,
		RecursiveReadOnly: recursive,
		Propagation:       propagation,
	}, nil
}

// mountSource is the host's path of a mount: the volume, or a path in it.
func mountSource(in ContainerInput, mount v1.VolumeMount, index int, volume Volume, env []v1.EnvVar) (string, error) {
	path := mount.SubPath
	if mount.SubPathExpr != "" {
		var err error
		if path, err = expandSubPath(mount.SubPathExpr, env); err != nil {
			return "", err
		}
	}
	if path == "" {
		return volume.HostPath, nil
	}
	if filepath.IsAbs(path) {
		return "", fmt.Errorf("error SubPath `%s` must not be an absolute path", path)
	}
	if !filepath.IsLocal(path) {
		return "", fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", path)
	}
	resolved, err := in.Volumes.SubPath(mount.Name, path, in.Container.Name, index)
	if err != nil {
		return "", fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q: %w", mount.Name, in.Container.Name, err)
	}
	return resolved, nil
}

// expandSubPath fills in subPathExpr; unlike a command's, every reference must be known.
func expandSubPath(expression string, env []v1.EnvVar) (string, error) {
	var missing []string
	path := Expand(expression, func(name string) (string, bool) {
		value, ok := envLookup(env)(name)
		if !ok {
			missing = append(missing, name)
		}
		return value, ok
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("missing value for %q", strings.Join(missing, ", "))
	}
	return path, nil
}

func propagation(mount v1.VolumeMount) (cri.MountPropagation, error) {
	switch mode := ptr.Deref(mount.MountPropagation, v1.MountPropagationNone); mode {
	case v1.MountPropagationNone:
		return cri.MountPropagation_PROPAGATION_PRIVATE, nil
	case v1.MountPropagationHostToContainer:
		return cri.MountPropagation_PROPAGATION_HOST_TO_CONTAINER, nil
	case v1.MountPropagationBidirectional:
		return cri.MountPropagation_PROPAGATION_BIDIRECTIONAL, nil
	default:
		return 0, fmt.Errorf("invalid MountPropagation mode: %q", mode)
	}
}

func recursiveReadOnly(mount v1.VolumeMount, node Node) (bool, error) {
	mode := ptr.Deref(mount.RecursiveReadOnly, v1.RecursiveReadOnlyDisabled)
	if mode == v1.RecursiveReadOnlyDisabled {
		return false, nil
	}
	if !mount.ReadOnly {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not read-only", mount.Name)
	}
	if p := ptr.Deref(mount.MountPropagation, v1.MountPropagationNone); p != v1.MountPropagationNone {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not compatible with propagation %q", mount.Name, p)
	}
	if !node.RecursiveReadOnly && mode == v1.RecursiveReadOnlyEnabled {
		return false, fmt.Errorf("volume %q requested recursive read-only mode, but it is not supported by the runtime", mount.Name)
	}
	return node.RecursiveReadOnly, nil
}
