package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
)

// dirMode is the mode of a volume's own folder: whoever the containers run as must
// be able to use it.
const dirMode = 0o777 | fs.ModeDir

// emptyDir makes a folder that lives as long as the Pod, on disk or in memory. One
// that is there already is the Pod's own business: its mode, owner and content may
// have changed.
func (m *Manager) emptyDir(pod *v1.Pod, volume *v1.Volume) (Mount, error) {
	source := volume.EmptyDir
	dir := m.dir(pod.UID, kind(volume), volume.Name)
	mode := emptyDirMode(source, fsGroup(pod))
	var err error
	switch source.Medium {
	case v1.StorageMediumDefault:
		err = makeEmptyDir(dir, mode, fsGroup(pod))
	case v1.StorageMediumMemory:
		if err = m.makeFolder(dir); err == nil {
			err = m.mountTmpfs(dir, memoryOptions(mode, fsGroup(pod), memorySize(pod, source)))
		}
	default:
		err = unsupportedField(volume.Name, "emptyDir.medium: "+string(source.Medium))
	}
	return Mount{HostPath: dir}, err
}

// emptyDirMode lets everybody use the folder unless the Pod says otherwise, and the
// Pod's group hand itself on to what is made in it.
func emptyDirMode(source *v1.EmptyDirVolumeSource, group *int64) fs.FileMode {
	mode := fs.FileMode(0o777)
	if source.Mode != nil {
		mode = unixMode(*source.Mode)
	}
	if group != nil {
		mode |= 0o770 | fs.ModeSetgid
	}
	return mode
}

// makeEmptyDir makes the folder once. It gets its name when it is complete, so that
// a crash leaves no folder with the wrong mode or owner.
func makeEmptyDir(dir string, mode fs.FileMode, group *int64) error {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh := filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir))
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return fmt.Errorf("making the volume's folder: %w", err)
	}
	if err := os.Mkdir(fresh, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making the volume's folder: %w", err)
	}
	if group != nil {
		if err := os.Chown(fresh, -1, int(*group)); err != nil {
			return fmt.Errorf("giving the volume to the Pod's group: %w", err)
		}
	}
	if err := os.Chmod(fresh, mode); err != nil {
		return fmt.Errorf("setting the mode of the volume: %w", err)
	}
	return os.Rename(fresh, dir)
}

// specialBits are the bits of a mode above the permissions, as chmod(1) spells them.
var specialBits = map[int32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky}

// unixMode reads a mode as chmod(1) spells it.
func unixMode(bits int32) fs.FileMode {
	mode := fs.FileMode(bits) & fs.ModePerm
	for bit, flag := range specialBits {
		if bits&bit != 0 {
			mode |= flag
		}
	}
	return mode
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
