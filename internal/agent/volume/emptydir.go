package volume

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	helper "k8s.io/component-helpers/resource"
)

// dirMode is the mode of a volume's own folder: whoever the containers run as must
// be able to use it.
const dirMode = 0o777 | fs.ModeDir

// emptyDir makes a folder that lives as long as the Pod, on disk or in memory.
func (m *Manager) emptyDir(pod *v1.Pod, volume *v1.Volume) (Mount, error) {
	source := volume.EmptyDir
	dir := m.dir(pod.UID, kind(volume), volume.Name)
	if err := m.makeFolder(dir); err != nil {
		return Mount{}, err
	}
	switch source.Medium {
	case v1.StorageMediumDefault:
	case v1.StorageMediumMemory:
		if err := m.mountTmpfs(dir, memorySize(pod, source)); err != nil {
			return Mount{}, err
		}
	default:
		return Mount{}, unsupportedField(volume.Name, "emptyDir.medium: "+string(source.Medium))
	}
	return Mount{HostPath: dir}, ownEmptyDir(dir, source, fsGroup(pod))
}

// ownEmptyDir gives the folder itself to the Pod. What the Pod wrote into it is
// its own business.
func ownEmptyDir(dir string, source *v1.EmptyDirVolumeSource, group *int64) error {
	mode := fs.FileMode(0o777)
	if source.Mode != nil {
		mode = unixMode(*source.Mode)
	}
	if group == nil {
		return os.Chmod(dir, mode)
	}
	if err := os.Chown(dir, -1, int(*group)); err != nil {
		return fmt.Errorf("giving the volume to the Pod's group: %w", err)
	}
	return os.Chmod(dir, mode|0o770|fs.ModeSetgid)
}

// unixMode reads a mode as chmod(1) spells it.
func unixMode(bits int32) fs.FileMode {
	mode := fs.FileMode(bits) & fs.ModePerm
	for bit, flag := range map[int32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if bits&bit != 0 {
			mode |= flag
		}
	}
	return mode
}

// memorySize bounds a memory volume in bytes: by its own limit, else by the Pod's
// memory limit; 0 leaves it to the kernel (half the machine).
func memorySize(pod *v1.Pod, source *v1.EmptyDirVolumeSource) int64 {
	limits := helper.PodLimits(pod, helper.PodResourcesOptions{})
	size := limits.Memory().Value()
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Resources.Limits.Memory().IsZero() && !helper.IsPodLevelLimitsSet(pod) {
			size = 0 // one container without a limit leaves the Pod without one
		}
	}
	if own := source.SizeLimit; own != nil && own.Value() > 0 && (size == 0 || own.Value() < size) {
		size = own.Value()
	}
	return size
}

// keepInMemory puts a folder of secrets on tmpfs, so that they never reach a disk.
// An agent that is not root cannot mount; the folder is then private to it.
func (m *Manager) keepInMemory(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return m.mountTmpfs(dir, 0)
}

func (m *Manager) mountTmpfs(dir string, size int64) error {
	mounted, err := m.mounter.IsMountPoint(dir)
	if err != nil {
		return fmt.Errorf("looking at %s: %w", dir, err)
	}
	if mounted {
		return nil
	}
	var options []string
	if size > 0 {
		options = []string{fmt.Sprintf("size=%d", size)}
	}
	if err := m.mounter.MountSensitiveWithoutSystemd("tmpfs", dir, "tmpfs", options, nil); err != nil {
		return fmt.Errorf("mounting memory at %s: %w", dir, err)
	}
	return nil
}

// makeFolder makes a volume's folder. Those above it are nobody else's business.
func (m *Manager) makeFolder(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return fmt.Errorf("making the volume's folder: %w", err)
	}
	if err := os.Mkdir(dir, 0o750); err != nil && !os.IsExist(err) {
		return fmt.Errorf("making the volume's folder: %w", err)
	}
	return nil
}
