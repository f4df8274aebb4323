package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"muster.dev/muster/internal/runtime"
)

// Config is all the agent must be told about its node and its cluster. Zero
// values of the fields marked optional stand for the default named there.
type Config struct {
	// NodeName is the Node's name, NodeIPs its addresses, the first one its own
	// choice where one address is needed.
	NodeName string
	NodeIPs  []net.IP
	// Client reaches the API server with the node's own credentials.
	Client *rest.Config
	// Runtime is the node's container runtime; the caller closes it after Run.
	Runtime runtime.Runtime

	// RootDir holds Pod directories in the kubelet's layout (default /var/lib/kubelet).
	RootDir string
	// PodLogsDir and ContainerLogsDir are where node agents look for logs
	// (defaults /var/log/pods and /var/log/containers).
	PodLogsDir, ContainerLogsDir string

	// Endpoint is the node's HTTPS endpoint for logs and exec.
	Endpoint Endpoint

	// CgroupParent is the cgroup that holds every Pod's own; empty leaves the
	// choice to the runtime. CgroupDriver is "cgroupfs" or "systemd".
	CgroupParent, CgroupDriver string
	// APIHost and APIPort are what containers find in KUBERNETES_SERVICE_HOST and
	// KUBERNETES_SERVICE_PORT.
	APIHost string
	APIPort int
	// ClusterDNS are the addresses of the cluster's name servers; with none,
	// ClusterFirst means the node's own resolver. ClusterDomain is e.g. "cluster.local".
	ClusterDNS    []string
	ClusterDomain string

	// Labels and Taints are set on the Node when it registers.
	Labels map[string]string
	Taints []v1.Taint
	// MaxPods is how many Pods may run at once (default 110).
	MaxPods int
	// Reserved is what allocatable is smaller by than capacity (optional).
	Reserved v1.ResourceList
	// MaxPulls is how many images are fetched at the same time (default 3).
	MaxPulls int
	// Version is the version the Node shows (default: that of the Kubernetes
	// libraries built in).
	Version string

	// Clock and Logger are optional (the machine's clock, slog.Default).
	Clock  clock.WithTicker
	Logger *slog.Logger

	// client replaces those made from Client, in tests.
	client kubernetes.Interface
}

// Endpoint is where and how the node's HTTPS endpoint listens. An empty Listen
// address means that there is none.
type Endpoint struct {
	// Listen is host:port.
	Listen string
	// CertFile and KeyFile are the serving certificate, ClientCAFile the authority
	// of callers' certificates. They are read again when they change.
	CertFile, KeyFile, ClientCAFile string
}

func (c Config) withDefaults() (Config, error) {
	if c.NodeName == "" || c.Runtime == nil || (c.Client == nil && c.client == nil) {
		return c, errors.New("configuring agent: node name, runtime and API client must be given")
	}
	setDefault(&c.RootDir, "/var/lib/kubelet")
	setDefault(&c.PodLogsDir, "/var/log/pods")
	setDefault(&c.ContainerLogsDir, "/var/log/containers")
	setDefault(&c.ClusterDomain, "cluster.local")
	setDefault(&c.MaxPods, 110)
	setDefault(&c.MaxPulls, 3)
	setDefault(&c.Version, libraryVersion())
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	for _, dir := range []string{c.RootDir, c.PodLogsDir, c.ContainerLogsDir} {
		if !filepath.IsAbs(dir) {
			return c, fmt.Errorf("configuring agent: %s is not an absolute path", dir)
		}
	}
	return c, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// libraryVersion is the version of Kubernetes this binary's libraries are of:
// client-go v0.37.2 belongs to Kubernetes v1.37.2.
func libraryVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/client-go" {
				return strings.Replace(module.Version, "v0.", "v1.", 1)
			}
		}
	}
	return "v0.0.0"
}

// makeDirs makes the folders that the agent keeps things in.
func makeDirs(c Config) error {
	for path, mode := range map[string]os.FileMode{
		c.RootDir: 0o750, c.PodLogsDir: 0o755, c.ContainerLogsDir: 0o755, filepath.Join(c.RootDir, "seccomp"): 0o750,
	} {
		if err := os.MkdirAll(path, mode); err != nil {
			return fmt.Errorf("making the agent's folders: %w", err)
		}
	}
	return nil
}
