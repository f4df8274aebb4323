package fake

import (
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
)

// Script is how the simulated world behaves. A nil function means the pleasant
// answer: sandboxes are made, every image can be pulled at once, containers run
// until they are stopped, commands end with 0. The functions may be called by
// many goroutines and must not call the runtime they serve.
type Script struct {
	// Sandbox may refuse a sandbox; it returns the refusal and how long making it takes.
	Sandbox func(config *cri.PodSandboxConfig) (delay time.Duration, refusal error)
	// Container is asked at every start what this attempt will do.
	Container func(Start) Run
	// Pull is asked at every pull; nth counts the pulls of this name from 1.
	Pull func(name string, nth int) Pull
	// Exec runs a command in a running container.
	Exec func(config *cri.ContainerConfig, command []string) Exec
}

// Start is one start of one container.
type Start struct {
	// ID is the container's. One that is asked to start again never ran: the start
	// before came to nothing.
	ID      string
	Sandbox *cri.PodSandboxConfig
	Config  *cri.ContainerConfig
	Attempt uint32
}

// Run is what one started container does. The zero Run runs until it is stopped
// and then ends with 0.
type Run struct {
	// Delay is how long starting takes; Refusal makes it fail.
	Delay   time.Duration
	Refusal error
	// Ends says that it ends by itself, After it has started, with ExitCode; Reason
	// is "Completed" or "Error" when empty.
	Ends     bool
	After    time.Duration
	ExitCode int32
	Reason   string
	// StopDelay is how long it takes to end once asked, with StopCode; Stubborn
	// means that it does not end before it is killed.
	StopDelay time.Duration
	StopCode  int32
	Stubborn  bool
	// Output are the lines it writes to its log when it starts.
	Output []string
	// MilliCPU and MemoryBytes are what it uses while it runs.
	MilliCPU    int64
	MemoryBytes uint64
}

// Pull is how one pull goes.
type Pull struct {
	Delay   time.Duration
	Failure error
	// Bytes, UID and Username are those of the image it brings.
	Bytes    int64
	UID      *int64
	Username string
}

// Exec is how one command goes. One that takes longer than it may times out.
type Exec struct {
	Takes   time.Duration
	Result  runtime.ExecResult
	Failure error
}

func (s Script) sandbox(config *cri.PodSandboxConfig) (time.Duration, error) {
	if s.Sandbox == nil {
		return 0, nil
	}
	return s.Sandbox(config)
}

func (s Script) container(start Start) Run {
	if s.Container == nil {
		return Run{}
	}
	return s.Container(start)
}

func (s Script) pull(name string, nth int) Pull {
	if s.Pull == nil {
		return Pull{}
	}
	return s.Pull(name, nth)
}

func (s Script) exec(config *cri.ContainerConfig, command []string) Exec {
	if s.Exec == nil {
		return Exec{}
	}
	return s.Exec(config, command)
}
