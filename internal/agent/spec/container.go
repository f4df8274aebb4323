package spec

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Container is what the runtime is told to create one run of a container. Every
// error is a *ConfigError: the container waits as CreateContainerConfigError.
func Container(in ContainerInput) (*cri.ContainerConfig, error) {
	config, err := container(in)
	if err != nil {
		return nil, &ConfigError{Err: err}
	}
	return config, nil
}

func container(in ContainerInput) (*cri.ContainerConfig, error) {
	env, err := Env(in)
	if err != nil {
		return nil, err
	}
	mounts, err := containerMounts(in, env)
	if err != nil {
		return nil, err
	}
	security, err := containerSecurity(in)
	if err != nil {
		return nil, err
	}
	image := in.ImageRef
	if image == "" {
		image = in.Container.Image
	}
	return &cri.ContainerConfig{
		Metadata:    &cri.ContainerMetadata{Name: in.Container.Name, Attempt: in.Attempt},
		Image:       &cri.ImageSpec{Image: image, UserSpecifiedImage: in.Container.Image},
		Command:     expandAll(in.Container.Command, env),
		Args:        expandAll(in.Container.Args, env),
		WorkingDir:  in.Container.WorkingDir,
		Envs:        keyValues(env),
		Mounts:      mounts,
		Labels:      containerLabels(in),
		Annotations: containerAnnotations(in),
		LogPath:     LogPath(in.Container.Name, in.Attempt),
		Stdin:       in.Container.Stdin,
		StdinOnce:   in.Container.StdinOnce,
		Tty:         in.Container.TTY,
		StopSignal:  stopSignal(in.Container),
		Linux: &cri.LinuxContainerConfig{
			Resources:       containerResources(in),
			SecurityContext: security,
		},
	}, nil
}

func expandAll(words []string, env []v1.EnvVar) []string {
	expanded := make([]string, len(words))
	for i, word := range words {
		expanded[i] = Expand(word, envLookup(env))
	}
	return expanded
}

func envLookup(env []v1.EnvVar) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, variable := range env {
			if variable.Name == name {
				return variable.Value, true
			}
		}
		return "", false
	}
}

func keyValues(env []v1.EnvVar) []*cri.KeyValue {
	list := make([]*cri.KeyValue, len(env))
	for i, variable := range env {
		list[i] = &cri.KeyValue{Key: variable.Name, Value: []byte(variable.Value)}
	}
	return list
}

// stopSignal is the container's own stop signal; without one the image's counts.
func stopSignal(container *v1.Container) cri.Signal {
	if container.Lifecycle == nil || container.Lifecycle.StopSignal == nil {
		return cri.Signal_SIGNAL_RUNTIME_DEFAULT
	}
	return cri.Signal(cri.Signal_value["SIGNAL_"+string(*container.Lifecycle.StopSignal)])
}

func sortBy[T any](list []T, key func(T) string) {
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
}
