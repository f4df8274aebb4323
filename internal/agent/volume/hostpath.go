package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// hostPath checks that a path of the node is what the Pod takes it for, and makes
// it where the Pod asks for that.
func hostPath(source *v1.HostPathVolumeSource) (Mount, error) {
	if err := checkHostPath(source.Path, ptr.Deref(source.Type, v1.HostPathUnset)); err != nil {
		return Mount{}, err
	}
	return Mount{HostPath: source.Path}, nil
}

func checkHostPath(path string, kind v1.HostPathType) error {
	switch kind {
	case v1.HostPathUnset:
		return nil
	case v1.HostPathDirectoryOrCreate:
		if err := createFolder(path); err != nil {
			return err
		}
		return mustBe(path, "directory", fs.FileMode.IsDir)
	case v1.HostPathDirectory:
		return mustBe(path, "directory", fs.FileMode.IsDir)
	case v1.HostPathFileOrCreate:
		if err := createFile(path); err != nil {
			return err
		}
		return mustBe(path, "file", fs.FileMode.IsRegular)
	case v1.HostPathFile:
		return mustBe(path, "file", fs.FileMode.IsRegular)
	case v1.HostPathSocket:
		return mustBe(path, "socket file", isSocket)
	case v1.HostPathCharDev:
		return mustBe(path, "character device", isCharDevice)
	case v1.HostPathBlockDev:
		return mustBe(path, "block device", isBlockDevice)
	}
	return fmt.Errorf("%s is an invalid volume type", kind)
}

func mustBe(path, expected string, is func(fs.FileMode) bool) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("path %q does not exist", path)
	}
	if err != nil {
		return fmt.Errorf("hostPath type check failed, %s is not a %s, unable to determine its type: %w", path, expected, err)
	}
	if !is(info.Mode()) {
		return fmt.Errorf("hostPath type check failed: %s is not a %s, it's a %s", path, expected, typeName(info.Mode()))
	}
	return nil
}

func typeName(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode.IsRegular():
		return "file"
	case isSocket(mode):
		return "socket"
	case isCharDevice(mode):
		return "character device"
	case isBlockDevice(mode):
		return "block device"
	}
	return "special file"
}

func isSocket(mode fs.FileMode) bool      { return mode&fs.ModeSocket != 0 }
func isCharDevice(mode fs.FileMode) bool  { return mode&fs.ModeCharDevice != 0 }
func isBlockDevice(mode fs.FileMode) bool { return mode&fs.ModeDevice != 0 && !isCharDevice(mode) }

// createFolder makes a missing folder with mode 0755 whatever the agent's umask.
func createFolder(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // whatever it is, mustBe judges it
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return os.Chmod(path, 0o755)
}

// createFile makes a missing file, with mode 0644, but no folder for it.
func createFile(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(file.Chmod(0o644), file.Close())
}
