package host

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
