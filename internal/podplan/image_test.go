package podplan

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestImagePullPolicies(t *testing.T) {
	for _, row := range []struct {
		name    string
		policy  v1.PullPolicy
		image   ImageState
		want    string // action, empty for none
		waiting string
	}{
		{"IfNotPresent and there", v1.PullIfNotPresent, ImageState{Present: true, PulledFor: -1}, "start x#0", "ContainerCreating"},
		{"IfNotPresent and not there", v1.PullIfNotPresent, ImageState{PulledFor: -1}, "pull x#0", "ContainerCreating"},
		{"IfNotPresent and on its way", v1.PullIfNotPresent, ImageState{Pulling: true, PulledFor: -1}, "", "ContainerCreating"},
		{"Always and not pulled for this attempt", v1.PullAlways, ImageState{Present: true, PulledFor: -1}, "pull x#0", "ContainerCreating"},
		{"Always and pulled for this attempt", v1.PullAlways, ImageState{Present: true, PulledFor: 0}, "start x#0", "ContainerCreating"},
		{"Always, pulled but gone since", v1.PullAlways, ImageState{PulledFor: 0}, "pull x#0", "ContainerCreating"},
		{"Never and there", v1.PullNever, ImageState{Present: true, PulledFor: -1}, "start x#0", "ContainerCreating"},
		{"Never and not there", v1.PullNever, ImageState{PulledFor: -1}, "", "ErrImageNeverPull"},
		{"no image's name", v1.PullIfNotPresent, ImageState{Invalid: true, PulledFor: -1}, "", "InvalidImageName"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(always, "app x")
			s.container("x").ImagePullPolicy = row.policy
			s.seen.Images["x"] = row.image
			if row.want == "" {
				s.want(t)
			} else {
				s.want(t, row.want)
			}
			if got, _ := s.waiting("x"); got != row.waiting {
				t.Errorf("waits with %q, want %q", got, row.waiting)
			}
		})
	}
}

func TestAlwaysPullsOnceForEachAttempt(t *testing.T) {
	s := newScene(always, "app x")
	s.container("x").ImagePullPolicy = v1.PullAlways
	s.seen.Images["x"] = ImageState{Present: true, PulledFor: 0}
	s.starts("x")
	s.want(t)
	s.ends("x", 0)
	s.want(t, "pull x#1")
	s.seen.Images["x"] = ImageState{Present: true, PulledFor: 1}
	s.want(t, "start x#1")
}

// C62: an image that cannot be pulled never fails the Pod, whatever its policy.
func TestC62ImageThatCannotBePulledUnderNever(t *testing.T) {
	s := newScene(never, "init a", "app x")
	image := ImageState{PulledFor: -1, Error: "not found"}
	s.seen.Images["a"] = image
	for _, wait := range []int{10, 20, 40, 80, 160, 300, 300} {
		s.want(t, "pull a#0")
		image.Failures++
		image.LastFailure = s.now
		s.seen.Images["a"] = image
		s.wantIn(t, pullErrorShown)
		s.wantWaiting(t, "a", "ErrImagePull", "not found")
		s.wantPhase(t, v1.PodPending)
		s.pass(pullErrorShown)
		s.wantIn(t, time.Duration(wait)*time.Second-pullErrorShown)
		s.wantWaiting(t, "a", "ImagePullBackOff", `Back-off pulling image "img-a": ErrImagePull: not found`)
		s.wantWaiting(t, "x", "PodInitializing", "")
		s.wantPhase(t, v1.PodPending)
		s.pass(time.Duration(wait)*time.Second - pullErrorShown)
	}
	image.Pulling = true
	s.seen.Images["a"] = image
	s.want(t)
	s.wantWaiting(t, "a", "ImagePullBackOff", `Back-off pulling image "img-a": ErrImagePull: not found`)
	s.seen.Images["a"] = ImageState{Present: true, PulledFor: 0}
	s.want(t, "start a#0")
}

func TestImageMessages(t *testing.T) {
	s := newScene(always, "app x", "app y")
	s.container("x").Image = "UPPER case"
	s.seen.Images["x"] = ImageState{Invalid: true}
	s.container("y").ImagePullPolicy = v1.PullNever
	s.seen.Images["y"] = ImageState{}
	s.wantWaiting(t, "x", "InvalidImageName",
		`Failed to apply default image tag "UPPER case": couldn't parse image name "UPPER case": invalid reference format`)
	s.wantWaiting(t, "y", "ErrImageNeverPull", `Container image "img-y" is not present with pull policy of Never`)
}

func TestStartFailures(t *testing.T) {
	s := newScene(never, "app x")
	fail := func(reason string, count int) {
		s.seen.StartFailures["x"] = StartFailure{Reason: reason, Message: "why", Count: count, At: s.now}
	}
	for i, wait := range []int{10, 20, 40, 80, 160, 300, 300} {
		fail("CreateContainerError", i+1)
		s.wantIn(t, time.Duration(wait)*time.Second)
		s.wantWaiting(t, "x", "CreateContainerError", "why")
	}
	for i := range 5 {
		fail("CreateContainerConfigError", i+1)
		s.wantIn(t, 10*time.Second)
	}
	s.pass(10 * time.Second)
	s.want(t, "start x#0")
	s.wantPhase(t, v1.PodPending)
}
