package up

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation"

	"muster.dev/muster/internal/apiserver"
	"muster.dev/muster/internal/host"
	"muster.dev/muster/internal/wholefile"
)

// What a cluster gets when nothing else is asked for.
const (
	DefaultListen      = ":6443"
	DefaultAgentPort   = 10250
	DefaultPodCIDR     = host.DefaultPodCIDR
	DefaultServiceCIDR = apiserver.DefaultServiceCIDR
)

// Config is what a user may choose about a one-machine cluster. Empty fields
// mean the defaults.
type Config struct {
	// DataDir is where everything is kept.
	DataDir string
	// NodeName is the node's name; empty means the host's.
	NodeName string
	// Listen is the API server's address and port.
	Listen string
	// AgentPort is the port of the agent's HTTPS endpoint.
	AgentPort int
	// PodCIDR is the node's Pod network.
	PodCIDR netip.Prefix
	// ServiceCIDR is where Services get their addresses.
	ServiceCIDR string
	// PodLogsDir and ContainerLogsDir are where Pod logs and the links to them stand.
	PodLogsDir, ContainerLogsDir string
	// Labels are what the node registers with.
	Labels map[string]string
}

// Progress is told how far a command has come.
type Progress struct {
	// Say takes one line for a person: what is being waited for, or what to do next.
	Say func(line string)
	// Ready is called once, when the node is Ready.
	Ready func()
}

func (c Config) withDefaults() (Config, error) {
	if c.NodeName == "" {
		name, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("reading the host's name for the node: %w", err)
		}
		c.NodeName = strings.ToLower(name)
	}
	if problems := validation.IsDNS1123Subdomain(c.NodeName); len(problems) > 0 {
		return c, fmt.Errorf("%q cannot be the node's name (%s); give one with --node-name", c.NodeName, problems[0])
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return c, fmt.Errorf("reading the data directory %q: %w", c.DataDir, err)
	}
	c.DataDir = dir
	return c, c.checkListen()
}

// checkListen refuses what Pods and the agent could not reach.
func (c Config) checkListen() error {
	address, port, err := net.SplitHostPort(c.Listen)
	if err != nil || port == "" {
		return fmt.Errorf("%q is not an address and port to listen on; give one like --listen :6443", c.Listen)
	}
	ip := net.ParseIP(address)
	if address != "" && ip == nil {
		return fmt.Errorf("--listen %s: %q is not an IP address; give one of this machine's, or none for all of them", c.Listen, address)
	}
	if ip.IsLoopback() {
		return fmt.Errorf("--listen %s: Pods cannot reach a loopback address; give another of this machine's, or none for all of them", c.Listen)
	}
	return nil
}

// settingsFile keeps the configuration a cluster was last started with, so that
// down and images need be told no more than the data directory.
const settingsFile = "settings.json"

func (c Config) save() error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the settings: %w", err)
	}
	if err := wholefile.Write(c.path(settingsFile), text, 0o600); err != nil {
		return fmt.Errorf("keeping the settings: %w", err)
	}
	return nil
}

// errDamaged says that the settings are there and cannot be read.
var errDamaged = errors.New("the settings are damaged")

// saved is the configuration that the cluster in dataDir was last started with;
// a directory in which none was ever started has the defaults, and so has, with
// errDamaged, one whose settings cannot be made sense of.
func saved(dataDir string) (Config, error) {
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return Config{}, fmt.Errorf("reading the data directory %q: %w", dataDir, err)
	}
	config := Config{DataDir: dir}
	text, err := os.ReadFile(config.path(settingsFile))
	if errors.Is(err, os.ErrNotExist) {
		return config, nil
	}
	if err != nil {
		return config, fmt.Errorf("reading the settings: %w", err)
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return Config{DataDir: dir}, fmt.Errorf("%w: reading %s: %w", errDamaged, config.path(settingsFile), err)
	}
	config.DataDir = dir // it may have been moved since
	return config, nil
}

func (c Config) path(name string) string { return filepath.Join(c.DataDir, name) }

// Kubeconfig is where the administrator's kubeconfig is written.
func (c Config) Kubeconfig() string { return c.path("kubeconfig") }

func (c Config) agentListen() string { return net.JoinHostPort("", strconv.Itoa(c.AgentPort)) }

// hostOptions are what the host is told.
func (c Config) hostOptions(say func(string)) host.Options {
	return host.Options{
		DataDir: c.DataDir, PodCIDR: c.PodCIDR,
		Ports:      []string{c.Listen, c.agentListen()},
		PodsDir:    c.path("agent/pods"),
		PodLogsDir: c.PodLogsDir, ContainerLogsDir: c.ContainerLogsDir,
		Progress: say,
	}
}

// address is the node's own address, which Pods can reach: the one asked for,
// else that of the default route, else the gateway of the Pod network.
func (c Config) address(gateway netip.Addr) net.IP {
	asked, _, err := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(asked); err == nil && ip != nil && !ip.IsUnspecified() {
		return ip
	}
	if ip, err := utilnet.ChooseHostInterface(); err == nil {
		return ip
	}
	return net.IP(gateway.AsSlice())
}
