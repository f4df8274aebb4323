package podplan

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
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

func (v *view) image(m *member) ImageState {
	state, known := v.seen.Images[m.Name]
	if !known {
		state.PulledFor = -1
	}
	return state
}

// imageHere says that the image is as the pull policy wants it for the next attempt.
func (v *view) imageHere(m *member) bool {
	state := v.image(m)
	switch {
	case m.pending() != nil:
		return true // the container is made of it already
	case state.Invalid:
		return false
	case m.ImagePullPolicy == v1.PullAlways:
		return state.Present && state.PulledFor == m.next()
	default:
		return state.Present
	}
}

// imageWait is why the image cannot be fetched now; nil when it can or need not be.
func (v *view) imageWait(m *member) *wait {
	state := v.image(m)
	switch {
	case v.imageHere(m):
		return nil
	case state.Invalid:
		return &wait{Reason: invalidImageName, Message: fmt.Sprintf(
			"Failed to apply default image tag %q: couldn't parse image name %q: invalid reference format", m.Image, m.Image)}
	case m.ImagePullPolicy == v1.PullNever:
		return &wait{Reason: errImageNeverPull, Message: fmt.Sprintf("Container image %q is not present with pull policy of Never", m.Image)}
	case state.Failures == 0:
		return nil
	}
	if shown := v.after(state.LastFailure, pullErrorShown); shown.After(v.now) && !state.Pulling {
		return &wait{Reason: errImagePull, Message: state.Error, Until: shown}
	}
	retry := v.after(state.LastFailure, imageBackOff.after(state.Failures))
	if retry.After(v.now) || state.Pulling {
		return &wait{Reason: imagePullBackOff, Until: retry, Message: fmt.Sprintf(
			"Back-off pulling image %q: %s: %s", m.Image, errImagePull, state.Error)}
	}
	return nil
}
