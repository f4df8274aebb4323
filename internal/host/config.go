package host

import (
	"encoding/json"
	"fmt"
	"strings"
)

// containerdSettings is all that containerd's configuration depends on.
type containerdSettings struct {
	layout
	major         int    // containerd's major version: 1 takes format 2, later ones format 3
	snapshotter   string // "overlayfs" or "native"
	runc          string // path of runc
	cniBin        string // folder with the CNI plugins
	restrictOOM   bool   // the process may not lower a container's OOM score
	systemdCgroup bool
}

// renderContainerd writes containerd's configuration. Whatever would reach
// outside our own folders, or listen where others can reach it, is turned off.
func renderContainerd(s containerdSettings) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	version := 2
	if s.major >= 2 {
		version = 3
	}
	line("version = %d", version)
	line("root = %q", s.root)
	line("state = %q", s.state)
	// opt would make /opt/containerd, nri a socket under /var/run that every
	// containerd shares; the snapshotters below are never chosen.
	line("disabled_plugins = [%s]", quoted("io.containerd.internal.v1.opt", "io.containerd.internal.v1.restart",
		"io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
		"io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
		"io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs"))
	line("[grpc]")
	line("  address = %q", s.socket)
	if version == 2 {
		renderCRI2(line, s)
	} else {
		renderCRI3(line, s)
	}
	return b.String()
}

func renderCRI2(line func(string, ...any), s containerdSettings) {
	const cri = `plugins."io.containerd.grpc.v1.cri"`
	line("[%s]", cri)
	line("  sandbox_image = %q", SandboxImage)
	renderCRICommon(line, s)
	renderStream(line)
	line("[%s.cni]", cri)
	line("  bin_dir = %q", s.cniBin)
	line("  conf_dir = %q", s.cni)
	line("[%s.containerd]", cri)
	line("  snapshotter = %q", s.snapshotter)
	renderRunc(line, cri, s)
	line("[%s.registry]", cri)
	line("  config_path = %q", registryConfig)
}

func renderCRI3(line func(string, ...any), s containerdSettings) {
	const runtime = `plugins."io.containerd.cri.v1.runtime"`
	const images = `plugins."io.containerd.cri.v1.images"`
	line(`[plugins."io.containerd.grpc.v1.cri"]`)
	renderStream(line)
	line("[%s]", images)
	line("  snapshotter = %q", s.snapshotter)
	line("[%s.pinned_images]", images)
	line("  sandbox = %q", SandboxImage)
	line("[%s.registry]", images)
	line("  config_path = %q", registryConfig)
	line("[%s]", runtime)
	renderCRICommon(line, s)
	line("[%s.cni]", runtime)
	line("  bin_dir = %q", s.cniBin)
	line("  conf_dir = %q", s.cni)
	renderRunc(line, runtime, s)
}

// registryConfig is where an administrator describes mirrors to any containerd.
const registryConfig = "/etc/containerd/certs.d"

func renderCRICommon(line func(string, ...any), s containerdSettings) {
	// Network namespaces below our own state folder can be found again.
	line("  netns_mounts_under_state_dir = true")
	line("  restrict_oom_score_adj = %t", s.restrictOOM)
}

func renderStream(line func(string, ...any)) {
	// exec and attach streams have no authentication of their own: only the agent
	// on this machine may reach them.
	line("  disable_tcp_service = true")
	line("  stream_server_address = %q", "127.0.0.1")
	line("  stream_server_port = %q", "0")
}

func renderRunc(line func(string, ...any), cri string, s containerdSettings) {
	line("[%s.containerd.runtimes.runc]", cri)
	line("  runtime_type = %q", "io.containerd.runc.v2")
	line("[%s.containerd.runtimes.runc.options]", cri)
	line("  BinaryName = %q", s.runc)
	line("  Root = %q", s.state+"/runc")
	line("  SystemdCgroup = %t", s.systemdCgroup)
}

func quoted(names ...string) string {
	for i := range names {
		names[i] = fmt.Sprintf("%q", names[i])
	}
	return strings.Join(names, ", ")
}

// renderNetwork writes the CNI configuration list of the Pod network.
func renderNetwork(l layout, o Options) ([]byte, error) {
	type object = map[string]any
	list := object{
		"cniVersion": "0.4.0",
		"name":       l.network,
		"plugins": []object{
			{
				"type": "bridge", "bridge": l.bridge,
				"isGateway": true, "isDefaultGateway": true, "ipMasq": true,
				// A Pod may reach itself through its own hostPort.
				"hairpinMode": true,
				"ipam": object{
					"type": "host-local", "dataDir": l.cniState,
					"ranges": [][]object{{{"subnet": o.PodCIDR.String(), "gateway": o.gateway().String()}}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}
	text, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the CNI configuration: %w", err)
	}
	return append(text, '\n'), nil
}
