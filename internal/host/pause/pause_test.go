package pause

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestProgramIsAnExecutable(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		program, err := Program(arch)
		if err != nil {
			t.Fatal(err)
		}
		file, err := elf.NewFile(bytes.NewReader(program))
		if err != nil {
			t.Fatalf("%s: %v", arch, err)
		}
		segment := file.Progs[0]
		if file.Machine != machine || file.Type != elf.ET_EXEC || segment.Filesz != uint64(len(program)) ||
			file.Entry < segment.Vaddr || file.Entry >= segment.Vaddr+segment.Memsz {
			t.Errorf("%s: %+v, %+v", arch, file.FileHeader, segment.ProgHeader)
		}
	}
	if _, err := Program("pdp11"); err == nil {
		t.Error("a processor nobody knows has a program")
	}
}

func TestProgramEndsOnSignals(t *testing.T) {
	program, err := Program(runtime.GOARCH)
	if err != nil {
		t.Skip(err)
	}
	name := filepath.Join(t.TempDir(), "pause")
	if err := os.WriteFile(name, program, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGINT} {
		command := exec.Command(name)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		// Its only sleep is the wait for a signal.
		waitFor(t, "the program waits", func() bool {
			text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(command.Process.Pid), "status"))
			return err == nil && strings.Contains(string(text), "State:\tS")
		})
		for _, ignored := range []unix.Signal{unix.SIGCHLD, unix.SIGWINCH} {
			if err := command.Process.Signal(ignored); err != nil {
				t.Fatal(err)
			}
		}
		if err := command.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := command.Wait(); err != nil {
			t.Errorf("after %v: %v", signal, err)
		}
	}
}

// waitFor waits for a condition that nothing announces.
func waitFor(t *testing.T, what string, met func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !met() {
		if time.Now().After(deadline) {
			t.Fatalf("waiting until %s: it does not happen", what)
		}
		time.Sleep(time.Millisecond)
	}
}
