package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestStartAdoptRestartRemove(t *testing.T) {
	options := realOptions(t, "10.213.1.0/24")
	first := start(t, options)
	sandbox := runSandbox(t, first, "uid-1", 18931)
	running := traces(t, options)
	for _, kind := range []string{"mount", "interface", "rule", "cgroup", "process", "attachment"} {
		mustHave(t, running, kind)
	}

	second := start(t, options)
	if second.PID() != first.PID() || !second.Adopted() {
		t.Errorf("second start: process %d, adopted %t; want the first one's %d", second.PID(), second.Adopted(), first.PID())
	}

	if err := unix.Kill(first.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	third := start(t, options)
	if third.Adopted() {
		t.Error("a containerd that was killed was adopted")
	}
	if state := sandboxState(t, third, sandbox); state != cri.PodSandboxState_SANDBOX_READY {
		t.Errorf("sandbox after a restart of containerd: %s", state)
	}

	chains := podChains(t, third.layout)
	if len(chains) != 2 {
		t.Errorf("chains of the Pod's address and hostPort: %q", chains)
	}
	// With containerd dead, the Pods are stopped through a new one.
	if err := unix.Kill(third.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := Remove(t.Context(), options, false); err != nil {
		t.Fatal(err)
	}
	if left := traces(t, options); len(left) > 0 {
		t.Errorf("left after removal:\n%s", strings.Join(left, "\n"))
	}
	after := natRules(t)
	for _, chain := range chains {
		if strings.Contains(after, chain) {
			t.Errorf("chain %s is left:\n%s", chain, after)
		}
	}
	if !exists(filepath.Join(options.DataDir, "containerd", "root")) {
		t.Error("images are gone without purge")
	}
	if err := Remove(t.Context(), options, true); err != nil {
		t.Fatal(err)
	}
	if exists(options.DataDir) {
		t.Error("the data directory is there after a purge")
	}
}

// Whatever makes a new containerd necessary, its containers live on.
func TestStartReplacesContainerd(t *testing.T) {
	options := realOptions(t, "10.213.7.0/24")
	c := start(t, options)
	sandbox := runSandbox(t, c, "uid-7", 18937)
	for _, test := range []struct {
		name   string
		change func() error
	}{
		{"its settings changed", func() error {
			changed := readProcess(c.layout.record)
			changed.Settings = "others"
			return changed.write(c.layout.record)
		}},
		{"the record is lost, as when its starter was killed", func() error { return os.Remove(c.layout.record) }},
		{"it does not answer", func() error { return os.Remove(c.layout.socket) }},
	} {
		if err := test.change(); err != nil {
			t.Fatal(err)
		}
		before := c.process
		c = start(t, options)
		if c.Adopted() || before.running() {
			t.Errorf("%s: adopted %t, the old one runs %t", test.name, c.Adopted(), before.running())
		}
		if found, err := withArgument(c.layout.config); err != nil || len(found) != 1 || found[0].PID != c.PID() {
			t.Errorf("%s: running %v (%v), want only process %d", test.name, found, err, c.PID())
		}
		if state := sandboxState(t, c, sandbox); state != cri.PodSandboxState_SANDBOX_READY {
			t.Errorf("%s: the sandbox is %s", test.name, state)
		}
	}
	if session, err := unix.Getsid(c.PID()); err != nil || session != c.PID() {
		t.Errorf("containerd is in session %d (%v), which is not its own", session, err)
	}
}

func TestRemoveAfterEverythingWasKilled(t *testing.T) {
	options := realOptions(t, "10.213.2.0/24")
	c := start(t, options)
	runSandbox(t, c, "uid-2", 18932)
	logs := filepath.Join(options.PodLogsDir, "default_web_uid-2")
	if err := os.MkdirAll(filepath.Join(options.PodsDir, "uid-2"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(c.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Even what it would be started again from is gone.
	if err := removeFiles(c.layout.config, c.layout.record); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(c.layout.root); err != nil {
		t.Fatal(err)
	}
	mustHave(t, traces(t, options), "process")
	if err := Remove(t.Context(), options, true); err != nil {
		t.Fatal(err)
	}
	if left := traces(t, options); len(left) > 0 {
		t.Errorf("left after removal:\n%s", strings.Join(left, "\n"))
	}
	for _, gone := range []string{options.DataDir, logs} {
		if exists(gone) {
			t.Errorf("%s is there after a purge", gone)
		}
	}
	if err := Remove(t.Context(), options, true); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
}

// What a Pod held is given back at the next start when its removal was cut short.
func TestStartReleasesWhatNobodyOwns(t *testing.T) {
	options := realOptions(t, "10.213.3.0/24")
	c := start(t, options)
	kept := runSandbox(t, c, "uid-3", 18933)
	lost := filepath.Join(c.layout.cniState, c.layout.network, "10.213.3.77")
	if err := os.WriteFile(lost, []byte("gone\r\neth0"), 0o600); err != nil {
		t.Fatal(err)
	}
	comment := fmt.Sprintf(`dnat name: "%s" id: "gone"`, c.layout.network)
	for _, args := range [][]string{
		{"-N", "CNI-DN-gone"},
		{"-A", "CNI-DN-gone", "-p", "tcp", "--dport", "18934", "-j", "DNAT", "--to-destination", "10.213.3.77:80"},
		{"-A", "CNI-HOSTPORT-DNAT", "-p", "tcp", "-m", "comment", "--comment", comment, "--dport", "18934", "-j", "CNI-DN-gone"},
	} {
		if text, err := exec.Command("iptables", append([]string{"-w", "-t", "nat"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	if err := unix.Kill(c.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	start(t, options)
	if exists(lost) {
		t.Error("the address of a Pod that is gone is still reserved")
	}
	rules := natRules(t)
	if strings.Contains(rules, "gone") {
		t.Errorf("hostPort rules of a Pod that is gone are still there:\n%s", rules)
	}
	if addresses, err := reservations(c.layout); err != nil || len(addresses) != 1 || addresses[0].owner != kept {
		t.Errorf("reservations %v, %v; want that of the running Pod", addresses, err)
	}
	if !strings.Contains(rules, kept) {
		t.Errorf("hostPort rules of a running Pod are gone:\n%s", rules)
	}
}

func TestStartFailureShowsTheLog(t *testing.T) {
	options := realOptions(t, "10.213.4.0/24")
	l := newLayout(options.DataDir)
	// A folder where the socket belongs: containerd cannot listen.
	if err := os.MkdirAll(filepath.Join(l.socket, "in-the-way"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := Start(t.Context(), options)
	if err == nil {
		t.Fatal("started", c.Close())
	}
	if !strings.Contains(err.Error(), l.log) || !strings.Contains(err.Error(), "containerd.sock") {
		t.Errorf("the error does not show the log: %v", err)
	}
	if err := os.RemoveAll(l.socket); err != nil {
		t.Fatal(err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := identify(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting with an ended context: %v", err)
	}
	if err := p.end(t.Context(), 5*time.Second); err != nil {
		t.Error(err)
	}
	if p.running() {
		t.Error("it still runs")
	}
	reused := p
	reused.PID, reused.Started = os.Getpid(), p.Started-1
	if reused.running() {
		t.Error("a process number that was used again passes for the old process")
	}
}
