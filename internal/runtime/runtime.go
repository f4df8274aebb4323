// Package runtime is the seam to the container runtime: the few calls the node
// agent needs, and the facts it gets back. cri/ speaks to containerd or CRI-O,
// fake/ keeps everything in memory for simulated nodes and tests; both must pass
// the suite in runtimetest/.
//
// The seam owns no policy: it never restarts, retries or orders anything. What
// to run next is decided in podplan, and done by agent.
package runtime

import (
	"context"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime is one node's container runtime. Every call may be repeated after a
// crash or a time-out; an object that is already gone is not an error for Stop
// and Remove. Configurations are CRI's own messages, since both kinds of caller
// and callee speak them; observations are the small structs below.
type Runtime interface {
	// Info says what the runtime is. It fails while the runtime cannot be reached.
	Info(ctx context.Context) (Info, error)
	// Status says whether the runtime and its network can take Pods.
	Status(ctx context.Context) (Status, error)

	// List is everything the runtime holds that belongs to a Pod, grouped by Pod
	// UID. It is one consistent re-read: the base for every decision.
	List(ctx context.Context) (map[types.UID]Pod, error)
	// Pod is the same for one Pod; a Pod the runtime does not know is the zero Pod.
	Pod(ctx context.Context, uid types.UID) (Pod, error)

	// RunSandbox creates and starts a Pod's sandbox; handler is the RuntimeClass
	// handler, empty for the default.
	RunSandbox(ctx context.Context, config *cri.PodSandboxConfig, handler string) (id string, err error)
	// StopSandbox ends every process of the sandbox and frees its network.
	StopSandbox(ctx context.Context, id string) error
	// RemoveSandbox forgets a stopped sandbox and its containers.
	RemoveSandbox(ctx context.Context, id string) error

	// CreateContainer makes a container in a sandbox without starting it.
	CreateContainer(ctx context.Context, sandboxID string, config *cri.ContainerConfig, sandbox *cri.PodSandboxConfig) (id string, err error)
	// StartContainer starts a created container.
	StartContainer(ctx context.Context, id string) error
	// StopContainer asks PID 1 to end (its stop signal), waits for grace, then
	// kills. It returns when the container has ended.
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	// RemoveContainer forgets an ended container.
	RemoveContainer(ctx context.Context, id string) error
	// ReopenLog makes the runtime reopen a container's log file after rotation.
	ReopenLog(ctx context.Context, id string) error

	// ExecSync runs a command in a container and waits for its end. A command
	// that ran is not an error whatever its exit code.
	ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (ExecResult, error)
	// Exec, Attach and PortForward prepare a stream and return the runtime's own
	// address for it, which only the agent may be able to reach.
	Exec(ctx context.Context, request *cri.ExecRequest) (*url.URL, error)
	Attach(ctx context.Context, request *cri.AttachRequest) (*url.URL, error)
	PortForward(ctx context.Context, request *cri.PortForwardRequest) (*url.URL, error)

	// Image looks an image up by the name a Pod uses; nil when it is not there.
	Image(ctx context.Context, name string) (*Image, error)
	// Images lists all images.
	Images(ctx context.Context) ([]Image, error)
	// PullImage fetches an image and returns its reference. auth may be nil.
	PullImage(ctx context.Context, name string, auth *cri.AuthConfig, sandbox *cri.PodSandboxConfig) (ref string, err error)
	// RemoveImage removes an image and all its names.
	RemoveImage(ctx context.Context, name string) error

	// Stats is the present use of every container, by container ID.
	Stats(ctx context.Context) (map[string]Stats, error)

	// Events announces that something about a Pod changed, until ctx ends, when
	// the channel is closed. Events are hints: they may be lost, doubled or come
	// before the state they announce, so the receiver re-reads. An Event without
	// PodUID means "anything may have changed": it is sent after every
	// (re)connection.
	Events(ctx context.Context) <-chan Event
}

// Info is the runtime's identity.
type Info struct {
	Name       string // "containerd", "cri-o"
	Version    string // as the runtime prints it
	APIVersion string // CRI version
}

// Status is what the runtime says of its own health.
type Status struct {
	RuntimeReady   bool
	RuntimeMessage string
	NetworkReady   bool
	NetworkMessage string
	// Handlers are the RuntimeClass handlers it offers; "" is the default.
	Handlers []string
	// StrictGroups says that it can keep a container to the groups that its Pod
	// names, whatever the image adds (supplementalGroupsPolicy: Strict).
	StrictGroups bool
	// CgroupDriver is "cgroupfs" or "systemd"; empty when the runtime does not say.
	CgroupDriver string
}

// Pod is all the runtime holds for one Pod.
type Pod struct {
	UID        types.UID
	Namespace  string
	Name       string
	Sandboxes  []Sandbox   // newest first
	Containers []Container // oldest first
}

// Sandbox is one Pod sandbox as observed.
type Sandbox struct {
	ID          string
	Attempt     uint32
	Ready       bool
	CreatedAt   time.Time
	IPs         []string // empty for host-network Pods
	HostNetwork bool
	Labels      map[string]string
	Annotations map[string]string
}

// State is how far a container has come.
type State string

// The states of a container.
const (
	Created State = "Created"
	Running State = "Running"
	Exited  State = "Exited"
	Unknown State = "Unknown"
)

// Container is one container (one attempt at it) as observed.
type Container struct {
	ID          string
	SandboxID   string
	Name        string // the container's name in the Pod
	Attempt     uint32 // the restart count at its creation
	State       State
	CreatedAt   time.Time
	StartedAt   time.Time
	FinishedAt  time.Time
	ExitCode    int32
	Reason      string // "Completed", "Error", "OOMKilled", as the runtime says
	Message     string
	Image       string // the name asked for
	ImageID     string // the reference it resolved to
	LogPath     string
	Labels      map[string]string
	Annotations map[string]string
}

// Image is an image the runtime holds.
type Image struct {
	ID          string
	RepoTags    []string
	RepoDigests []string
	Bytes       int64
	Pinned      bool
	// UID and Username are the user the image runs as; UID is nil when it names one
	// by Username, and both are empty for root.
	UID      *int64
	Username string
}

// Stats is the use of one container.
type Stats struct {
	At              time.Time
	CPUNanos        uint64 // cumulative CPU time, nanoseconds
	WorkingSet      uint64 // bytes
	RSS             uint64 // bytes
	FilesystemBytes uint64 // writable layer, bytes
}

// ExecResult is how a command in a container ended.
type ExecResult struct {
	Stdout, Stderr []byte
	ExitCode       int32
}

// Event is a hint that a Pod's containers or sandbox changed.
type Event struct {
	PodUID      types.UID // empty: anything may have changed
	ContainerID string
	At          time.Time
}
