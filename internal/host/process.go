package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"muster.dev/muster/internal/wholefile"
)

// process names one running process beyond doubt: a process number is used
// again, a number with its start time in one boot is not.
type process struct {
	PID     int    `json:"pid"`
	Started uint64 `json:"started"` // clock ticks after boot, field 22 of /proc/PID/stat
	Boot    string `json:"boot"`    // the kernel's ID of this boot
	// Settings is the hash of what it was started with; when it differs the
	// process is restarted.
	Settings string `json:"settings"`
	// Snapshotter is the one it was told to use.
	Snapshotter string `json:"snapshotter"`
}

// identify reads who has a process number now.
func identify(pid int) (process, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	// The command's name stands in parentheses and may itself contain some.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return process{}, fmt.Errorf("looking at process %d: %q is too short", pid, stat)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return process{}, fmt.Errorf("looking at process %d: %w", pid, os.ErrProcessDone)
	}
	started, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return process{}, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	boot, err := bootID()
	if err != nil {
		return process{}, err
	}
	return process{PID: pid, Started: started, Boot: boot}, nil
}

func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot ID: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// running says whether exactly this process still runs.
func (p process) running() bool {
	if p.PID <= 0 {
		return false
	}
	now, err := identify(p.PID)
	return err == nil && now.Started == p.Started && now.Boot == p.Boot
}

// readProcess reads a record; a missing or torn one is the zero process.
func readProcess(file string) process {
	var p process
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &p) != nil {
		return process{}
	}
	return p
}

func (p process) write(file string) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("recording the process: %w", err)
	}
	return replaceFile(file, append(text, '\n'), 0o600)
}

// replaceFile writes a file so that a crash leaves the old or the new one.
func replaceFile(name string, content []byte, mode os.FileMode) error {
	if err := wholefile.Write(name, content, mode); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// withArgument lists the processes started with exactly this argument. It finds
// our own after the record was lost.
func withArgument(argument string) ([]process, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []process
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // ended meanwhile
		}
		for _, word := range strings.Split(string(line), "\x00") {
			if word != argument {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				return nil, fmt.Errorf("listing processes: %w", err)
			}
			if p, err := identify(pid); err == nil && pid != os.Getpid() {
				found = append(found, p)
			}
			break
		}
	}
	return found, nil
}

// wait returns nil when the process has ended, or ctx's error.
func (p process) wait(ctx context.Context) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watching process %d: %w", p.PID, err)
	}
	defer unix.Close(fd)
	if !p.running() { // the number was used again before we held it
		return nil
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("watching process %d: %w", p.PID, err)
	}
	defer unix.Close(wake)
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // cannot fail: the counter is 0
	})
	defer func() {
		if !stop() {
			<-done
		}
	}()
	watched := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(watched, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("watching process %d: %w", p.PID, err)
		}
		if watched[0].Revents != 0 {
			p.reap()
			return nil
		}
		if watched[1].Revents != 0 {
			return ctx.Err()
		}
	}
}

// isProgram says whether the process runs a program whose name begins so.
func (p process) isProgram(name string) bool {
	link, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(p.PID), "exe"))
	return err == nil && p.running() && strings.HasPrefix(filepath.Base(link), name)
}

// reap takes the exit status if the process was our child, so that no zombie
// stays; it is another's child when it was adopted.
func (p process) reap() {
	var status unix.WaitStatus
	_, _ = unix.Wait4(p.PID, &status, unix.WNOHANG, nil) // ECHILD: not ours
}

// end asks the process to end and kills it after grace. It returns when it has
// ended.
func (p process) end(ctx context.Context, grace time.Duration) error {
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if !p.running() {
			p.reap()
			return nil
		}
		if err := unix.Kill(p.PID, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("ending process %d: %w", p.PID, err)
		}
		bounded, cancel := context.WithTimeout(ctx, grace)
		err := p.wait(bounded)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("ending process %d: %w", p.PID, ctx.Err())
		}
	}
	return fmt.Errorf("ending process %d: it does not end", p.PID)
}
