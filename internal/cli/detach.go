package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"muster.dev/muster/internal/up"
)

// readyPipe names, to a detached child, the file descriptor on which its parent
// reads what it announces.
const readyPipe = "MUSTER_READY_FD"

// readyMark is the line by which a child says that its node is Ready.
const readyMark = "\x04ready"

// childFD is the descriptor of the first extra file of a child process.
const childFD = 3

// detach runs the same command in a session of its own, shows what it announces,
// and returns when it is ready or has ended. Its output goes to DIR/muster.log.
func detach(ctx context.Context, config up.Config, args []string, out io.Writer) error {
	if err := os.MkdirAll(config.DataDir, 0o711); err != nil {
		return fmt.Errorf("making the data directory: %w", err)
	}
	logFile := filepath.Join(config.DataDir, "muster.log")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close()
	before, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	listen, speak, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	defer listen.Close()

	child := exec.Command("/proc/self/exe", withoutDetach(args)...)
	child.Args[0] = os.Args[0]
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%d", readyPipe, childFD))
	child.Stdout, child.Stderr = log, log
	child.ExtraFiles = []*os.File{speak}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = child.Start()
	speak.Close()
	if err != nil {
		return fmt.Errorf("starting in the background: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = child.Process.Signal(syscall.SIGTERM) })
	defer stop()
	return follow(listen, child, logPart{logFile, before}, out)
}

// follow shows the child's announcements until it says that it is ready.
func follow(announced io.Reader, child *exec.Cmd, log logPart, out io.Writer) error {
	lines := bufio.NewScanner(announced)
	for lines.Scan() {
		if lines.Text() == readyMark {
			return child.Process.Release()
		}
		fmt.Fprintln(out, lines.Text())
	}
	err := child.Wait()
	return fmt.Errorf("muster ended before the node was Ready (%v); %s says:\n%s", err, log.file, log.last(15))
}

func withoutDetach(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		return arg == "--detach" || strings.HasPrefix(arg, "--detach=")
	})
}

// parentPipe is the pipe to a parent that waits; nil when there is none.
func parentPipe() *os.File {
	if os.Getenv(readyPipe) == "" {
		return nil
	}
	syscall.CloseOnExec(childFD)
	return os.NewFile(childFD, "parent")
}

// logPart is what one run has written to a log that others wrote to before.
type logPart struct {
	file string
	from int64 // bytes
}

// last are the last lines of the part.
func (p logPart) last(count int) string {
	text, err := os.ReadFile(p.file)
	if err != nil {
		return err.Error()
	}
	text = text[min(p.from, int64(len(text))):]
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
