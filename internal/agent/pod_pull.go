package agent

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/podplan"
)

// pullImage fetches a container's image; the result is kept for the next
// observation. When to try again is podplan's to say.
func (w *worker) pullImage(ctx context.Context, pod *v1.Pod, a podplan.Action) error {
	container := findContainer(pod, a.Container)
	if container == nil {
		panic("podplan pulled the image of a container the Pod does not have: " + a.Container)
	}
	w.changeImage(a.Container, func(s *podplan.ImageState) { s.Pulling = true })
	w.poke() // the status says so
	tell := func(kind, reason, message string) { w.events.Container(pod, a.Container, kind, reason, message) }
	tell(v1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", container.Image))
	p, err := w.pullWith(ctx, pod, container.Image)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		w.log.Warn("Pulling an image failed", "container", a.Container, "image", container.Image, "err", err)
		tell(v1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %v", container.Image, err))
		tell(v1.EventTypeWarning, "Failed", "Error: ErrImagePull")
	} else {
		tell(v1.EventTypeNormal, "Pulled", fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.",
			container.Image, p.took.Round(time.Millisecond), p.waited.Round(time.Millisecond), p.bytes))
	}
	w.pullEnded(a, err)
	return nil
}

func (w *worker) pullEnded(a podplan.Action, err error) {
	now := w.clock.Now()
	w.changeImage(a.Container, func(s *podplan.ImageState) {
		s.Pulling = false
		if err != nil {
			s.Failures, s.LastFailure, s.Error = s.Failures+1, now, err.Error()
			return
		}
		s.Failures, s.Error, s.Present, s.PulledFor = 0, "", true, a.Attempt
	})
}

// pullWith tries the Pod's credentials for the image's registry in turn, and
// without any last.
func (w *worker) pullWith(ctx context.Context, pod *v1.Pod, image string) (*pull, error) {
	sandbox, err := w.sandboxConfig(pod, 0)
	if err != nil {
		return nil, err
	}
	keys, err := w.registryKeys(ctx, pod, image)
	if err != nil {
		w.log.Warn("Reading image pull secrets failed, going on without", "image", image, "err", err)
	}
	for _, key := range keys {
		p, tried := w.pulls.fetch(ctx, image, key, sandbox)
		if tried == nil || ctx.Err() != nil {
			return p, tried
		}
		err = tried
	}
	if len(keys) > 0 {
		return nil, err
	}
	return w.pulls.fetch(ctx, image, nil, sandbox)
}
