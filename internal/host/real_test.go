package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// realOptions are options in folders of the test's own, cleared away at its end
// however it ends; the test is skipped where no real containers can be run.
func realOptions(t *testing.T, network string) Options {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("starting containers needs root")
	}
	if missing := findTools(t.TempDir()).missing(); missing != nil {
		t.Skipf("starting containers: %v", missing)
	}
	base, err := os.MkdirTemp("", "muster-host-")
	if err != nil {
		t.Fatal(err)
	}
	options := Options{
		DataDir: filepath.Join(base, "data"), PodCIDR: netip.MustParsePrefix(network),
		PodsDir: filepath.Join(base, "data", "pods"), PodLogsDir: filepath.Join(base, "logs", "pods"),
		ContainerLogsDir: filepath.Join(base, "logs", "containers"), StopTimeout: 5 * time.Second,
	}
	t.Cleanup(func() {
		if err := Remove(context.Background(), options, true); err != nil {
			t.Errorf("removing everything: %v", err)
		}
		if err := removeTree(base); err != nil {
			t.Error(err)
		}
	})
	return options
}

func start(t *testing.T, options Options) *Containerd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := Start(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// runSandbox runs a Pod's sandbox that forwards hostPort to its port 80.
func runSandbox(t *testing.T, c *Containerd, uid string, hostPort int32) string {
	t.Helper()
	reply, err := cri.NewRuntimeServiceClient(c.conn).RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{
		Config: &cri.PodSandboxConfig{
			Metadata:     &cri.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: uid},
			LogDirectory: filepath.Join(c.options.PodLogsDir, "default_web_"+uid),
			PortMappings: []*cri.PortMapping{{Protocol: cri.Protocol_TCP, ContainerPort: 80, HostPort: hostPort}},
			Linux:        &cri.LinuxPodSandboxConfig{CgroupParent: c.CgroupParent()},
		}})
	if err != nil {
		t.Fatal(err)
	}
	return reply.PodSandboxId
}

func sandboxState(t *testing.T, c *Containerd, id string) cri.PodSandboxState {
	t.Helper()
	reply, err := cri.NewRuntimeServiceClient(c.conn).PodSandboxStatus(t.Context(), &cri.PodSandboxStatusRequest{PodSandboxId: id})
	if err != nil {
		t.Fatal(err)
	}
	return reply.Status.State
}

// traces is everything on the machine that carries one of our names.
func traces(t *testing.T, o Options) []string {
	t.Helper()
	l := newLayout(o.DataDir)
	var found []string
	mounts, err := readMounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range below(mounts, o.DataDir) {
		found = append(found, "mount "+m.target)
	}
	if link, err := net.InterfaceByName(l.bridge); err == nil {
		found = append(found, "interface "+link.Name)
	}
	rules, err := exec.Command("iptables-save").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(rules), "\n") {
		if strings.Contains(line, l.network) || strings.Contains(line, l.bridge) {
			found = append(found, "rule "+line)
		}
	}
	all, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, top := range cgroupTops(l, all) {
		if exists(top) {
			found = append(found, "cgroup "+top)
		}
	}
	for _, argument := range []string{l.socket, l.config} {
		processes, err := withArgument(argument)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range processes {
			found = append(found, fmt.Sprintf("process %d", p.PID))
		}
	}
	results, err := filepath.Glob(filepath.Join(libcniResults, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range results {
		// One that goes meanwhile belongs to somebody else.
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), o.DataDir) {
			found = append(found, "attachment "+file)
		}
	}
	return found
}

func mustHave(t *testing.T, found []string, kind string) {
	t.Helper()
	for _, one := range found {
		if strings.HasPrefix(one, kind) {
			return
		}
	}
	t.Errorf("no %s while a Pod runs, so its removal would prove nothing: %q", kind, found)
}

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

// podChains are the chains of the nat table that were made for our Pods.
func podChains(t *testing.T, l layout) []string {
	t.Helper()
	save, err := exec.Command("iptables-save", "-t", "nat").Output()
	if err != nil {
		t.Fatal(err)
	}
	var chains []string
	for _, line := range strings.Split(staleRules(string(save), l.network, func(string) bool { return true }), "\n") {
		if chain, found := strings.CutPrefix(line, "-X "); found {
			chains = append(chains, chain)
		}
	}
	return chains
}

// natRules is the nat table, which others change too while a test runs.
func natRules(t *testing.T) string {
	t.Helper()
	text, err := exec.Command("iptables", "-w", "-t", "nat", "-S").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
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
