package podplan

import (
	"time"

	"muster.dev/muster/internal/reason"
)

// Observed is everything the agent knows of one Pod at one moment: facts, not
// conclusions. The agent fills it from the runtime, its journal, its volume room
// and its probes; Decide turns it into work and Status into what the API shows.
type Observed struct {
	// Sandboxes are all sandboxes of the Pod that the runtime still holds, newest first.
	Sandboxes []Sandbox
	// SandboxAttempts is how many sandboxes the Pod ever had, by the journal.
	SandboxAttempts int
	// Attempts are all known runs of all containers, of every sandbox, oldest
	// first: those the runtime holds, and those only the journal remembers (Gone).
	Attempts []Attempt
	// Volumes is whether the Pod's volumes and directories are in place.
	Volumes Preparation
	// Images is the state of each container's image, by container name.
	Images map[string]ImageState
	// Probes are the latest probe results, by container name.
	Probes map[string]ProbeState
	// StartFailures are failed tries to create or start a container since its last
	// attempt (bad configuration, runtime refusals), by container name.
	StartFailures map[string]StartFailure
	// SandboxFailure is the last failed try to make a sandbox; nil after a success.
	SandboxFailure *StartFailure
	// Rejected is set when this node refused the Pod at admission; it then never starts.
	Rejected *reason.Reason
	// Removed says that the API object is gone though the Pod still runs here
	// (force deletion); DeletedAt and Grace of Termination then come from the agent.
	Removed bool
	// Terminating is when this agent (or one before it, by the journal) first saw
	// that the Pod must stop, with the grace period that then began; nil: it need not.
	Terminating *Termination
	// HostIPs are the node's addresses, PodIPs those of a host-network Pod.
	HostIPs []string
	// RuntimeName is the scheme of container IDs in the status, such as
	// "containerd", which is also what empty means.
	RuntimeName string
}

// Sandbox is one Pod sandbox as the runtime holds it.
type Sandbox struct {
	ID        string
	Attempt   int
	Ready     bool
	CreatedAt time.Time
	IPs       []string
	// Stopped says that StopSandbox has succeeded on it. Where it is not known, a
	// sandbox that is not ready and has no address counts as stopped.
	Stopped bool
}

// RunState is how far one attempt has come.
type RunState string

// The states of an attempt.
const (
	RunCreated RunState = "Created"
	RunRunning RunState = "Running"
	RunExited  RunState = "Exited"
	RunUnknown RunState = "Unknown"
)

// Attempt is one run of one container.
type Attempt struct {
	Container  string // name in the Pod
	Number     int    // the restart count it was created with
	ID         string // runtime ID, without scheme
	SandboxID  string
	State      RunState
	CreatedAt  time.Time
	StartedAt  time.Time
	FinishedAt time.Time
	ExitCode   int32
	Signal     int32
	Reason     string
	Message    string
	Image      string
	ImageID    string
	// BrokenOff says that the agent died while it was starting this attempt, and the
	// runtime took the start back. It counts as if it had never been.
	BrokenOff bool `json:",omitempty"`
	// Gone says that the runtime no longer holds it; the journal does.
	Gone bool
}

// Preparation is the state of the Pod's volumes and directories.
type Preparation struct {
	Ready bool
	// Failure is why they are not ready after the last try; nil while none failed.
	Failure *reason.Reason
}

// ImageState is what is known of one container's image on this node.
type ImageState struct {
	Present bool
	Pulling bool
	// Failures is the number of failed pulls in a row, LastFailure when the last
	// one ended and Error what it said.
	Failures    int
	LastFailure time.Time
	Error       string
	// Invalid says that the name cannot be an image's.
	Invalid bool
	// PulledFor is the attempt number for which a pull last succeeded, -1 for
	// none; imagePullPolicy Always asks for one pull per attempt.
	PulledFor int
}

// ProbeState is the latest verdict of a container's probes.
type ProbeState struct {
	// ContainerID is the attempt they speak of; verdicts of another are void.
	ContainerID string
	// Started: the startup probe has succeeded (or there is none and it runs).
	Started bool
	// Ready: the readiness probe's verdict (true without one once started).
	Ready bool
	// Failed is set when a startup or liveness probe passed its failure threshold.
	Failed *ProbeFailure
}

// ProbeFailure is why a container must be restarted.
type ProbeFailure struct {
	Kind    string // "liveness" or "startup"
	Message string
	// Grace is the probe's own termination grace period, where it has one.
	Grace *time.Duration
}

// StartFailure is a failed try to start something.
type StartFailure struct {
	// Reason is Kubernetes' word: CreateContainerConfigError, CreateContainerError,
	// RunContainerError, FailedCreatePodSandBox …
	Reason  string
	Message string
	// Count is the number of failures in a row; At is when the last one happened.
	Count int
	At    time.Time
}

// Termination is the Pod's one shared grace period.
type Termination struct {
	Since time.Time
	Grace time.Duration
	// Why is the reason that stands in the status where the Pod does not end by
	// deletion (DeadlineExceeded, Evicted); empty for deletion.
	Why     string
	Message string
}

// Verb is what an Action does.
type Verb string

// The verbs. Actions in one Decision have no order among them unless said here,
// and each may be repeated safely.
const (
	// PrepareVolumes makes the Pod's directories and volumes.
	PrepareVolumes Verb = "PrepareVolumes"
	// RunSandbox makes a sandbox with the given Attempt.
	RunSandbox Verb = "RunSandbox"
	// StopSandbox ends sandbox ID and all that runs in it.
	StopSandbox Verb = "StopSandbox"
	// RemoveSandbox forgets sandbox ID.
	RemoveSandbox Verb = "RemoveSandbox"
	// PullImage fetches Container's image (in the background; its end is observed).
	PullImage Verb = "PullImage"
	// StartContainer creates and starts Container as Attempt in the present sandbox.
	// Where ID is set that attempt is already created and needs only the start.
	StartContainer Verb = "StartContainer"
	// StopContainer ends container ID with Grace.
	StopContainer Verb = "StopContainer"
	// RemoveContainer forgets the ended container ID.
	RemoveContainer Verb = "RemoveContainer"
	// Release is the last of a Pod: nothing runs; take its volumes and directories
	// away and, when the object is being deleted, delete it from the API. It comes
	// with every Terminal decision.
	Release Verb = "Release"
)

// Action is one thing for the agent to do now.
type Action struct {
	Verb      Verb
	Container string
	ID        string
	Attempt   int
	Grace     time.Duration
	// Reason and Message are the event's words, where the action deserves one
	// (Killing: "Container app failed liveness probe, will be restarted").
	Reason  string
	Message string
}

// Decision is what to do about a Pod now.
type Decision struct {
	Actions []Action
	// Next is when to decide again though nothing happens; zero: only on news.
	Next time.Time
	// Reasons say why the Pod is not further than it is, first things first.
	Reasons []reason.Reason
	// Terminal says that no container runs and none will ever again.
	Terminal bool
}
