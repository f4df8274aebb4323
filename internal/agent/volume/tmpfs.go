package volume

import (
	"fmt"
	"io/fs"
	"os"

	v1 "k8s.io/api/core/v1"
	helper "k8s.io/component-helpers/resource"
)

// memoryOptions are the mount options of a memory volume; size 0 means no limit of
// its own.
func memoryOptions(mode fs.FileMode, group *int64, size int64) []string {
	bits := uint32(mode.Perm())
	for bit, flag := range specialBits {
		if mode&flag != 0 {
			bits |= uint32(bit)
		}
	}
	options := []string{fmt.Sprintf("mode=%o", bits)}
	if group != nil {
		options = append(options, fmt.Sprintf("gid=%d", *group))
	}
	if size > 0 {
		options = append(options, fmt.Sprintf("size=%d", size))
	}
	return options
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
	return m.mountTmpfs(dir, nil)
}

func (m *Manager) mountTmpfs(dir string, options []string) error {
	mounted, err := m.mounter.IsMountPoint(dir)
	if err != nil {
		return fmt.Errorf("looking at %s: %w", dir, err)
	}
	if mounted {
		return nil
	}
	if err := m.mounter.MountSensitiveWithoutSystemd("tmpfs", dir, "tmpfs", options, nil); err != nil {
		return fmt.Errorf("mounting memory at %s: %w", dir, err)
	}
	return nil
}
