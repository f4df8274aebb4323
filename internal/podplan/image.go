package podplan

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/reason"
)

// pullErrorShown is how long a failed pull's own error stands in the status
// before it says that the next try waits.
const pullErrorShown = 5 * time.Second

// The waiting reasons of images.
const (
	errImagePull      = "ErrImagePull"
	imagePullBackOff  = "ImagePullBackOff"
	errImageNeverPull = "ErrImageNeverPull"
	invalidImageName  = "InvalidImageName"
)

// wait is why a container is not started now, in the words of a waiting state.
type wait struct {
	Reason  string
	Message string
	// Until is when to look again; zero: only on news.
	Until time.Time
}

func (v *view) image(m *member) ImageState {
	state, known := v.seen.Images[m.Name]
	if !known {
		state.PulledFor = -1
	}
	return state
}

// imageHere says that the image is as the pull policy wants it for this attempt.
func (v *view) imageHere(m *member) bool {
	state := v.image(m)
	if state.Invalid {
		return false
	}
	if m.ImagePullPolicy == v1.PullAlways {
		return state.PulledFor == m.next()
	}
	return state.Present
}

// imageWait is why the image cannot be fetched now; nil when it can or need not be.
func (v *view) imageWait(m *member) *wait {
	state := v.image(m)
	switch {
	case state.Invalid:
		return &wait{Reason: invalidImageName, Message: fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image name %q: invalid reference format", m.Image, m.Image)}
	case v.imageHere(m):
		return nil
	case m.ImagePullPolicy == v1.PullNever:
		return &wait{Reason: errImageNeverPull, Message: fmt.Sprintf("Container image %q is not present with pull policy of Never", m.Image)}
	case state.Failures == 0:
		return nil
	}
	retry := state.LastFailure.Add(imageBackOff.after(state.Failures))
	shown := state.LastFailure.Add(pullErrorShown)
	switch {
	case v.now.Before(shown) && !state.Pulling:
		return &wait{Reason: errImagePull, Message: state.Error, Until: shown}
	case v.now.Before(retry) || state.Pulling:
		return &wait{Reason: imagePullBackOff, Message: fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", m.Image, state.Error), Until: retry}
	default:
		return nil
	}
}

func (w *wait) reason(container string) reason.Reason {
	return reason.Reason{Code: reason.ContainerWaiting, Object: container, Detail: w.Reason + ": " + w.Message}
}
