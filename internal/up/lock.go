package up

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Lock is the right to run on a data directory: a file lock, which the kernel
// takes back when its holder dies, however it dies.
type Lock struct{ file *os.File }

// ErrHeld says that another process runs on the data directory.
var ErrHeld = errors.New("the data directory is in use")

// TakeLock makes the data directory if need be and takes the right to run on it.
// When another process has it, the error wraps ErrHeld and names that process.
func TakeLock(dataDir string) (*Lock, error) {
	if err := os.MkdirAll(dataDir, 0o711); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dataDir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of %s: %w", dataDir, err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) && ending(Holder(dataDir)) {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: muster runs on %s as process %d; stop it, or give this one its own --data-dir", ErrHeld, dataDir, Holder(dataDir))
		}
		return nil, fmt.Errorf("locking %s: %w", dataDir, err)
	}
	if err := os.WriteFile(file.Name(), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		file.Close()
		return nil, fmt.Errorf("writing the lock of %s: %w", dataDir, err)
	}
	return &Lock{file: file}, nil
}

// dying is how long a process that was killed may take to be gone: the kernel
// takes its memory apart before it gives its locks back.
const dying = time.Second

// ending waits for a process that is about to be gone; false when it stays.
func ending(pid int) bool {
	if pid == 0 {
		return true // it went between two looks
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	gone, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(dying.Milliseconds()))
	return err == nil && gone > 0
}

// Release gives the right back.
func (l *Lock) Release() { l.file.Close() }

// Holder is the process that holds the data directory's lock, 0 when none does.
func Holder(dataDir string) int {
	path := filepath.Join(dataDir, "lock")
	file, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer file.Close()
	if unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		return 0 // nobody held it; closing gives it back
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

// Stop ends the muster that holds the data directory, as Ctrl-C would, and
// returns when its lock is free.
func Stop(dataDir string) error {
	pid := Holder(dataDir)
	if pid == 0 {
		return nil
	}
	if err := unix.Kill(pid, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("stopping muster (process %d): %w", pid, err)
	}
	file, err := os.Open(filepath.Join(dataDir, "lock"))
	if err != nil {
		return fmt.Errorf("waiting for muster (process %d) to stop: %w", pid, err)
	}
	defer file.Close()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX) // the kernel wakes us when the holder is gone
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for muster (process %d) to stop: %w", pid, err)
		}
	}
}
