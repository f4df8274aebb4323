package cri

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
)

// Info says what the runtime is.
func (c *Client) Info(ctx context.Context) (runtime.Info, error) {
	answer, err := call(ctx, c, "asking the runtime's version", c.runtime.Version, &cri.VersionRequest{Version: "v1"})
	if err != nil {
		return runtime.Info{}, err
	}
	return runtime.Info{Name: answer.RuntimeName, Version: answer.RuntimeVersion, APIVersion: answer.RuntimeApiVersion}, nil
}

// Status says whether the runtime and its network can take Pods. Handlers and
// cgroup driver come from the calls made for them, else from the configuration
// that older runtimes print in their verbose status.
func (c *Client) Status(ctx context.Context) (runtime.Status, error) {
	answer, err := call(ctx, c, "asking the runtime's status", c.runtime.Status, &cri.StatusRequest{Verbose: true})
	if err != nil {
		return runtime.Status{}, err
	}
	result := runtime.Status{StrictGroups: answer.GetFeatures().GetSupplementalGroupsPolicy()}
	for _, condition := range answer.GetStatus().GetConditions() {
		switch condition.Type {
		case cri.RuntimeReady:
			result.RuntimeReady, result.RuntimeMessage = condition.Status, condition.Message
		case cri.NetworkReady:
			result.NetworkReady, result.NetworkMessage = condition.Status, condition.Message
		}
	}
	printed := parseConfig(answer.Info["config"])
	for _, handler := range answer.RuntimeHandlers {
		result.Handlers = append(result.Handlers, handler.Name)
	}
	if len(result.Handlers) == 0 {
		result.Handlers = printed.handlers()
	}
	result.CgroupDriver, err = c.cgroupDriver(ctx, printed)
	return result, err
}

func (c *Client) cgroupDriver(ctx context.Context, printed printedConfig) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.CallTimeout)
	defer cancel()
	answer, err := c.runtime.RuntimeConfig(ctx, &cri.RuntimeConfigRequest{})
	if status.Code(err) == codes.Unimplemented {
		return printed.cgroupDriver(), nil
	}
	if err != nil {
		return "", translate(err)
	}
	if answer.GetLinux() == nil {
		return "", nil
	}
	if answer.Linux.CgroupDriver == cri.CgroupDriver_SYSTEMD {
		return "systemd", nil
	}
	return "cgroupfs", nil
}

// printedConfig is the part we use of containerd's configuration as its verbose
// status prints it.
type printedConfig struct {
	Containerd struct {
		DefaultRuntimeName string                    `json:"defaultRuntimeName"`
		Runtimes           map[string]printedRuntime `json:"runtimes"`
	} `json:"containerd"`
}

type printedRuntime struct {
	Options struct {
		SystemdCgroup bool `json:"SystemdCgroup"`
	} `json:"options"`
}

// parseConfig reads what it can: the text is an aid of older runtimes, so one
// that cannot be read counts as none.
func parseConfig(text string) printedConfig {
	var config printedConfig
	if json.Unmarshal([]byte(text), &config) != nil {
		return printedConfig{}
	}
	return config
}

// handlers are the configured handlers and "" for the default one.
func (p printedConfig) handlers() []string {
	return append([]string{""}, slices.Sorted(maps.Keys(p.Containerd.Runtimes))...)
}

func (p printedConfig) cgroupDriver() string {
	handler, ok := p.Containerd.Runtimes[p.Containerd.DefaultRuntimeName]
	switch {
	case !ok:
		return ""
	case handler.Options.SystemdCgroup:
		return "systemd"
	default:
		return "cgroupfs"
	}
}
