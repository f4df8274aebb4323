package agent

import (
	"context"
	"errors"
	"maps"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/agent/downward"
	"muster.dev/muster/internal/podplan"
	"muster.dev/muster/internal/runtime"
)

// lookAtImages asks the runtime for the images of containers that do not run.
// An image once found counts as there until a container cannot be made of it. One
// that cannot be looked up does not count: its pull will say what is wrong.
func (w *worker) lookAtImages(ctx context.Context, pod *v1.Pod, found runtime.Pod) {
	running := map[string]bool{}
	for _, c := range found.Containers {
		running[c.Name] = running[c.Name] || c.State == runtime.Running
	}
	for name, image := range containerImages(pod) {
		w.mu.Lock()
		state, known := w.images[name]
		w.mu.Unlock()
		if state.Present || state.Invalid || (running[name] && known) {
			continue
		}
		present, invalid := w.lookUpImage(ctx, image)
		w.changeImage(name, func(s *podplan.ImageState) { s.Present, s.Invalid = present, invalid })
	}
}

func (w *worker) lookUpImage(ctx context.Context, image string) (present, invalid bool) {
	if !validImage(image) {
		return false, true
	}
	got, err := w.runtime.Image(ctx, image)
	if err != nil {
		w.log.Warn("Looking up an image failed", "image", image, "err", err)
	}
	return got != nil, errors.Is(err, runtime.ErrInvalidImageName)
}

// changeImage updates what is known of a container's image; any goroutine may call it.
func (w *worker) changeImage(container string, change func(*podplan.ImageState)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	state, known := w.images[container]
	if !known {
		state.PulledFor = -1
	}
	change(&state)
	w.images[container] = state
}

// containerImages is the image name of every container of the Pod, by container name.
func containerImages(pod *v1.Pod) map[string]string {
	all := map[string]string{}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			all[c.Name] = c.Image
		}
	}
	for _, c := range pod.Spec.EphemeralContainers {
		all[c.Name] = c.Image
	}
	maps.DeleteFunc(all, func(_, image string) bool { return image == "" })
	return all
}

func validImage(name string) bool {
	_, err := reference.ParseDockerRef(name)
	return err == nil
}

// findContainer finds a container of any kind; nil when the Pod has none of the name.
func findContainer(pod *v1.Pod, name string) *v1.Container {
	if c := downward.Container(pod, name); c != nil {
		return c
	}
	if e := findEphemeral(pod, name); e != nil {
		c := v1.Container(e.EphemeralContainerCommon)
		return &c
	}
	return nil
}

func findEphemeral(pod *v1.Pod, name string) *v1.EphemeralContainer {
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return &pod.Spec.EphemeralContainers[i]
		}
	}
	return nil
}
