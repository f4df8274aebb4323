package spec

import (
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/agent/downward"
)

// Node is what a Pod's configuration needs to know of its node.
type Node struct {
	// Hostname is the host's name, which host-network Pods take.
	Hostname string
	// HostIPs are the node's addresses, the primary first.
	HostIPs []string
	// MemoryCapacity is the machine's memory in bytes; oom_score_adj is relative to it.
	MemoryCapacity int64
	// Allocatable is what the node offers to Pods.
	Allocatable v1.ResourceList
	// APIHost and APIPort are where Pods reach the API server.
	APIHost, APIPort string
	// Resolv is the host's resolver configuration (see ParseResolv).
	Resolv *cri.DNSConfig
	// ClusterDNS are the addresses of the cluster's DNS; none means that
	// ClusterFirst falls back to the node's resolver. ClusterDomain is its domain.
	ClusterDNS    []string
	ClusterDomain string
	// HostsFile is the content of the host's /etc/hosts, for host-network Pods.
	HostsFile []byte
	// LogRoot is the folder of all Pods' logs, /var/log/pods by default.
	LogRoot string
	// CgroupRoot is the cgroup above all Pods', and SystemdCgroups says that the
	// runtime's cgroup driver is systemd.
	CgroupRoot     string
	SystemdCgroups bool
	// Cgroup2 says that the host has the unified hierarchy only.
	Cgroup2 bool
	// SeccompRoot is the folder in which Localhost seccomp profiles stand.
	SeccompRoot string
	// RecursiveReadOnly says that the runtime can make mounts recursively read-only.
	RecursiveReadOnly bool
}

// PodInput is what a sandbox's configuration is made of.
type PodInput struct {
	Pod  *v1.Pod
	Node Node
	// Attempt is the sandbox's number, from 0.
	Attempt uint32
}

// ContainerInput is what a container's configuration is made of.
type ContainerInput struct {
	Pod       *v1.Pod
	Container *v1.Container
	Node      Node
	// Attempt is the restart count; it names the log file.
	Attempt uint32
	// PodIPs are the sandbox's addresses (the node's for host-network Pods).
	PodIPs []string
	// ImageRef is what the runtime resolved the image to.
	ImageRef string
	// ImageUser is whom the image wants to run as.
	ImageUser User
	// Volumes finds prepared volumes, Lookup config maps and secrets.
	Volumes Volumes
	Lookup  Lookup
	// Services become environment variables (enableServiceLinks); may be empty.
	Services []v1.Service
	// HostsFile is the path on the host of the managed /etc/hosts, and
	// TerminationFile that of the file mounted at terminationMessagePath; empty
	// where there is none.
	HostsFile       string
	TerminationFile string
	// Target is the ID of the container whose process namespace an ephemeral
	// container joins; empty otherwise.
	Target string
}

// User is the user an image names: UID, or Username where it gives no number.
// Both unset mean root.
type User struct {
	UID      *int64
	Username string
}

// Volume is one prepared volume as a container sees it.
type Volume struct {
	HostPath string
	ReadOnly bool
}

// Volumes finds prepared volumes of the Pod. SubPath returns the host's path of a
// path in the volume, made (as a folder) if need be, and never outside of it.
type Volumes interface {
	Volume(name string) (Volume, bool)
	SubPath(volume, path string, container string, index int) (string, error)
}

// Lookup reads what environment variables may refer to. A missing object is an
// error that apierrors.IsNotFound recognises.
type Lookup interface {
	ConfigMap(name string) (*v1.ConfigMap, error)
	Secret(name string) (*v1.Secret, error)
	// File reads a file in one of the Pod's volumes (os.ErrNotExist when missing).
	File(volume, path string) ([]byte, error)
}

func (in ContainerInput) facts() downward.Facts {
	return downward.Facts{HostIPs: in.Node.HostIPs, PodIPs: in.PodIPs, Allocatable: in.Node.Allocatable}
}

// ConfigError says that a container cannot be configured as its Pod asks. The
// container waits with the reason CreateContainerConfigError and Message.
type ConfigError struct{ Err error }

// Error is Kubernetes' own message.
func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

// Reason is the word that stands in the container's waiting state.
func (e *ConfigError) Reason() string { return "CreateContainerConfigError" }
