package runtimetest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"text/template"
)

// CNIBin is where the distribution keeps the CNI plugins.
const CNIBin = "/usr/lib/cni"

var containerdConfig = template.Must(template.New("config").Parse(`version = 2
root = "{{.Dir}}/root"
state = "{{.Dir}}/state"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "{{.Dir}}/ctd.sock"
[ttrpc]
  address = "{{.Dir}}/ttrpc.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{{.Dir}}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + PauseImage + `"
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "` + CNIBin + `"
    conf_dir = "{{.Dir}}/cni"
`))

var networkConfig = template.Must(template.New("network").Parse(`{
  "cniVersion": "0.4.0",
  "name": "{{.Bridge}}",
  "plugins": [{
    "type": "bridge", "bridge": "{{.Bridge}}", "isGateway": true,
    "ipam": {
      "type": "host-local", "dataDir": "{{.Dir}}/ipam",
      "ranges": [[{"subnet": "{{.Subnet}}"}]],
      "routes": [{"dst": "0.0.0.0/0"}]
    }
  }]
}
`))

func (c *Containerd) prepare() error {
	subnet, err := freeSubnet()
	if err != nil {
		return err
	}
	c.Subnet = subnet
	if err := os.Mkdir(filepath.Join(c.Dir, "cni"), 0o755); err != nil {
		return err
	}
	if err := c.render(containerdConfig, "config.toml"); err != nil {
		return err
	}
	return c.render(networkConfig, "cni/10-test.conflist")
}

func (c *Containerd) render(t *template.Template, name string) error {
	var text bytes.Buffer
	if err := t.Execute(&text, c); err != nil {
		return fmt.Errorf("rendering %s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(c.Dir, name), text.Bytes(), 0o644)
}

// started counts the containerds of this process.
var started atomic.Int32

// freeSubnet finds a /24 of 10.128.0.0/9 that no interface here is in.
func freeSubnet() (string, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("reading the machine's addresses: %w", err)
	}
	// A bridge comes with the first Pod only, so others may be about to take a
	// subnet that looks free: start where they did not.
	start := os.Getpid() + 257*int(started.Add(1))
	for i := range 1 << 15 {
		n := (start + i) % (1 << 15)
		_, subnet, _ := net.ParseCIDR(fmt.Sprintf("10.%d.%d.0/24", 128+n>>8, n&255))
		if !overlaps(subnet, addresses) {
			return subnet.String(), nil
		}
	}
	return "", fmt.Errorf("no free subnet in 10.128.0.0/9")
}

func overlaps(subnet *net.IPNet, addresses []net.Addr) bool {
	for _, address := range addresses {
		if other, ok := address.(*net.IPNet); ok && (other.Contains(subnet.IP) || subnet.Contains(other.IP)) {
			return true
		}
	}
	return false
}
