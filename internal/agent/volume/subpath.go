package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"
	"github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"
)

// subPath finds a path in a volume, makes it a folder if it is missing, and binds
// what it found to target. A container of the Pod may swap a folder for a link at
// any moment; what is bound is the very thing that was checked to be in the volume,
// so the runtime cannot be led out of it. An agent that is not root cannot bind and
// returns the path itself.
func (m *Manager) subPath(base, path, target string) (string, error) {
	found, err := openIn(base, path)
	if err != nil {
		return "", fmt.Errorf("opening %s in the volume: %w", path, err)
	}
	defer found.Close()
	if os.Geteuid() != 0 {
		return securejoin.SecureJoin(base, path)
	}
	if err := m.clear(target); err != nil {
		return "", fmt.Errorf("clearing the mount of %s: %w", path, err)
	}
	if err := makeTarget(found, target); err != nil {
		return "", err
	}
	if err := unix.Mount(procPath(found), target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return "", fmt.Errorf("binding %s: %w", path, err)
	}
	return target, nil
}

// openIn opens a path in a volume without leaving it, making missing folders like
// the volume's own.
func openIn(base, path string) (*os.File, error) {
	found, err := pathrs.OpenInRoot(base, path)
	if !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	root, err := os.Open(base)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat()
	if err != nil {
		return nil, err
	}
	parts := strings.Split(filepath.Clean(path), string(filepath.Separator))
	for i := range parts {
		if err := makeLike(root, filepath.Join(parts[:i+1]...), info.Mode()&(fs.ModePerm|fs.ModeSetgid)); err != nil {
			return nil, err
		}
	}
	return pathrs.OpenInRoot(base, path)
}

// makeLike makes one missing folder below root, with mode whatever the umask.
func makeLike(root *os.File, path string, mode fs.FileMode) error {
	present, err := pathrs.OpenatInRoot(root, path)
	if err == nil {
		return present.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	made, err := pathrs.MkdirAllHandle(root, path, mode.Perm())
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(procPath(made), mode), made.Close())
}

// clear takes an earlier mount away. The runs that use it have their own.
func (m *Manager) clear(target string) error {
	for {
		mounted, err := m.mounter.IsMountPoint(target)
		if errors.Is(err, fs.ErrNotExist) || (err == nil && !mounted) {
			break
		}
		if err != nil {
			return err
		}
		if err := m.mounter.Unmount(target); err != nil {
			return err
		}
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// makeTarget makes what a thing can be bound to: a folder for a folder, else a file.
func makeTarget(found *os.File, target string) error {
	info, err := found.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return fmt.Errorf("making the mount's folder: %w", err)
	}
	if info.IsDir() {
		return os.Mkdir(target, 0o750)
	}
	return os.WriteFile(target, nil, 0o640)
}

// procPath names an open file in a way that cannot be swapped.
func procPath(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }
