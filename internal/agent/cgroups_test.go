package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process that its runtime has forgotten does not keep an ended Pod for ever.
func TestCgroupGoesWithItsForgottenProcesses(t *testing.T) {
	root := filepath.Join(cgroupRoot, "pids")
	if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
		root = cgroupRoot
	}
	parent := fmt.Sprintf("muster-test-%d/pod", os.Getpid())
	inner := filepath.Join(root, parent, "sandbox")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(filepath.Join(root, filepath.Dir(parent))) })
	process := exec.Command("sleep", "1h")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill() })
	if err := os.WriteFile(filepath.Join(inner, "cgroup.procs"), []byte(strconv.Itoa(process.Process.Pid)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := removeCgroup(parent); !errors.Is(err, unix.EBUSY) {
		t.Fatalf("the first try gives %v, want EBUSY", err)
	}
	var exit *exec.ExitError
	if err := process.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("the process ended with %v, want a kill", err)
	}
	for limit := time.Now().Add(10 * time.Second); ; {
		err := removeCgroup(parent)
		if err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, parent)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cgroup is still there: %v", err)
	}
}
