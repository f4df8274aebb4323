package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrInUse means that another process holds the data directory.
var ErrInUse = errors.New("another process uses this data directory")

// dirLock is an advisory lock that the kernel frees when its holder dies, so
// that a killed process never leaves a directory locked. etcd's own lock would
// make the second process wait without a word.
type dirLock struct{ file *os.File }

// lockDir takes the lock of dir, or says who has it.
func lockDir(dir string) (*dirLock, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, readErr := os.ReadFile(file.Name())
		closeErr := file.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking: %w", err), readErr, closeErr)
		}
		if pid := strings.TrimSpace(string(holder)); pid != "" {
			return nil, fmt.Errorf("%w (process %s); stop it first", ErrInUse, pid)
		}
		return nil, fmt.Errorf("%w; stop it first", ErrInUse)
	}
	if err := writePID(file); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the lock: %w", err), file.Close())
	}
	return &dirLock{file: file}, nil
}

// writePID leaves the holder's process id for the message to the next comer.
func writePID(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(fmt.Sprintln(os.Getpid())), 0)
	return err
}

// release frees the directory. The file stays: removing it would let two
// processes lock two different files of one name.
func (l *dirLock) release() error { return l.file.Close() }
