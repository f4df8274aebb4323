package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// lockFile takes an exclusive lock that ends with the process at the latest.
func lockFile(ctx context.Context, name string) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", name, err)
	}
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", name, err), file.Close())
	}
	return func() { _ = file.Close() }, nil // closing unlocks; nothing was written
}

// openLog opens containerd's log to append; one that has grown large is put
// aside first.
func openLog(name string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && info.Size() > 16<<20 {
		if err := os.Rename(name, name+".1"); err != nil {
			return nil, fmt.Errorf("rotating the containerd log: %w", err)
		}
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the containerd log: %w", err)
	}
	return file, nil
}

// tail is the last lines of a file, for messages.
func tail(name string, lines int) string {
	content, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// output runs a program and returns what it printed; its error carries what it
// said about it.
func output(ctx context.Context, input string, program string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, program, args...)
	command.Stdin = strings.NewReader(input)
	var failure strings.Builder
	command.Stderr = &failure
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w: %s", filepath.Base(program), strings.Join(args, " "), err, strings.TrimSpace(failure.String()))
	}
	return string(text), nil
}
