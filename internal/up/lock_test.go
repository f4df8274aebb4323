package up

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestMain lets this test binary stand in for a running muster.
func TestMain(m *testing.M) {
	if dir := os.Getenv("HOLD_LOCK"); dir != "" {
		lock, err := TakeLock(dir)
		if err != nil {
			os.Exit(3)
		}
		os.Stdout.WriteString("held\n")
		io.Copy(io.Discard, os.Stdin) // until the test ends, or this process
		lock.Release()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func holdElsewhere(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "HOLD_LOCK="+dir)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.StdinPipe(); err != nil { // open as long as the test
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Process.Kill(); other.Wait() })
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatalf("the other process did not take the lock: %v", err)
	}
	return other
}

func TestASecondMusterOnTheSameDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	other := holdElsewhere(t, dir)
	_, err := TakeLock(dir)
	if !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), "--data-dir") {
		t.Fatalf("got %v, want ErrHeld with a remedy", err)
	}
	if pid := Holder(dir); pid != other.Process.Pid {
		t.Fatalf("holder is %d, want %d", pid, other.Process.Pid)
	}
}

// TestAMusterThatIsDyingIsWaitedFor: a kill is not over when it is sent.
func TestAMusterThatIsDyingIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	other := holdElsewhere(t, dir)
	time.AfterFunc(dying/5, func() { other.Process.Kill() })
	lock, err := TakeLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	lock.Release()
}

func TestAKilledMusterLeavesTheDirectoryFree(t *testing.T) {
	dir := t.TempDir()
	other := holdElsewhere(t, dir)
	other.Process.Kill()
	other.Wait()
	lock, err := TakeLock(dir)
	if err != nil {
		t.Fatalf("the lock outlived its holder: %v", err)
	}
	lock.Release()
	if pid := Holder(dir); pid != 0 {
		t.Fatalf("holder is %d after the release", pid)
	}
}

func TestStopEndsTheHolderAndWaitsForIt(t *testing.T) {
	dir := t.TempDir()
	other := holdElsewhere(t, dir)
	gone := make(chan error, 1)
	go func() { gone <- other.Wait() }()
	if err := Stop(dir); err != nil {
		t.Fatal(err)
	}
	<-gone
	if err := Stop(dir); err != nil {
		t.Fatalf("stopping what does not run: %v", err)
	}
}
