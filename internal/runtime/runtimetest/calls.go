package runtimetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"muster.dev/muster/internal/runtime"
)

func (s *suite) testExecSync(t *testing.T) {
	p := s.newPod(t)
	id := p.start("main", "wait", "0")
	result, err := s.Runtime.ExecSync(t.Context(), id, []string{"/prog", "print", "out", "complain", "err", "exit", "4"}, 10*time.Second)
	if err != nil || string(result.Stdout) != "out\n" || string(result.Stderr) != "err\n" || result.ExitCode != 4 {
		t.Errorf("ExecSync() = %q, %q, %d, %v", result.Stdout, result.Stderr, result.ExitCode, err)
	}
	if _, err := s.Runtime.ExecSync(t.Context(), "nothing", []string{"/prog"}, time.Second); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("ExecSync() in nothing: %v, want not found", err)
	}
	must(t, s.Runtime.StopContainer(t.Context(), id, 0))
	if _, err := s.Runtime.ExecSync(t.Context(), id, []string{"/prog", "exit", "0"}, time.Second); err == nil {
		t.Error("ExecSync() worked in an ended container")
	}
}

func (s *suite) testExecTimeout(t *testing.T) {
	p := s.newPod(t)
	id := p.start("main", "wait", "0")
	_, err := s.Runtime.ExecSync(t.Context(), id, []string{"/prog", "sleep", "1h"}, time.Second)
	if !errors.Is(err, runtime.ErrTimedOut) {
		t.Errorf("ExecSync() = %v, want timed out", err)
	}
	if c := p.container(id); c.State != runtime.Running {
		t.Errorf("container is %+v, want not harmed", c)
	}
}

func (s *suite) testImages(t *testing.T) {
	image, err := s.Runtime.Image(t.Context(), ProgImage)
	if err != nil || image == nil || image.ID == "" || image.Bytes <= 0 || image.UID != nil || image.Username != "" {
		t.Fatalf("Image() = %+v, %v, want an image run as root", image, err)
	}
	user, err := s.Runtime.Image(t.Context(), UserImage)
	if err != nil || user == nil || user.UID == nil || *user.UID != 1234 || user.Username != "" {
		t.Errorf("Image() = %+v, %v, want user 1234", user, err)
	}
	named, err := s.Runtime.Image(t.Context(), NamedImage)
	if err != nil || named == nil || named.UID != nil || named.Username != "nobody" {
		t.Errorf("Image() = %+v, %v, want user nobody", named, err)
	}
	if absent, err := s.Runtime.Image(t.Context(), "muster.test/never-was:1"); absent != nil || err != nil {
		t.Errorf("Image() = %+v, %v, want none", absent, err)
	}
	if absurd, err := s.Runtime.Image(t.Context(), "Not A Name"); absurd != nil || err != nil {
		t.Errorf("Image() = %+v, %v, want none by no name", absurd, err)
	}
	all, err := s.Runtime.Images(t.Context())
	if err != nil || !slices.ContainsFunc(all, func(i runtime.Image) bool { return slices.Contains(i.RepoTags, ProgImage) }) {
		t.Errorf("Images() = %+v, %v, want %s among them", all, err, ProgImage)
	}
	must(t, s.Runtime.RemoveImage(t.Context(), NamedImage))
	if gone, err := s.Runtime.Image(t.Context(), NamedImage); gone != nil || err != nil {
		t.Errorf("Image() = %+v, %v after its removal", gone, err)
	}
}

func (s *suite) testImageByID(t *testing.T) {
	p := s.newPod(t)
	image, err := s.Runtime.Image(t.Context(), ProgImage)
	if err != nil || image == nil {
		t.Fatalf("Image() = %+v, %v", image, err)
	}
	config := p.containerConfig("main", 0, "wait", "0")
	config.Image.Image = image.ID
	id, err := s.Runtime.CreateContainer(t.Context(), p.sandboxID, config, p.config)
	must(t, err)
	if c := p.container(id); c.ImageID != image.ID || c.Image != ProgImage {
		t.Errorf("container has image %q %q, want the name asked for and %s", c.Image, c.ImageID, image.ID)
	}
}

func (s *suite) testPullFailures(t *testing.T) {
	_, err := s.Runtime.PullImage(t.Context(), "Not A Name", nil, nil)
	if !errors.Is(err, runtime.ErrInvalidImageName) {
		t.Errorf("pulling no name: %v, want invalid name", err)
	}
	// Nothing listens on port 1.
	_, err = s.Runtime.PullImage(t.Context(), "127.0.0.1:1/prog:1", nil, nil)
	if !errors.Is(err, runtime.ErrRegistryUnavailable) || !errors.Is(err, runtime.ErrPullFailed) {
		t.Errorf("pulling from nowhere: %v, want registry unavailable", err)
	}
}

func (s *suite) testContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Runtime.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("List() = %v, want canceled", err)
	}
	late, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	if _, err := s.Runtime.List(late); !errors.Is(err, runtime.ErrTimedOut) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("List() = %v, want timed out", err)
	}
	p := s.newPod(t)
	id := p.start("main", "stubborn")
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := s.Runtime.StopContainer(short, id, time.Hour); !errors.Is(err, runtime.ErrTimedOut) {
		t.Errorf("StopContainer() = %v within its grace, want timed out", err)
	}
	must(t, s.Runtime.StopContainer(t.Context(), id, 0))
	if c := p.container(id); c.State != runtime.Exited || c.ExitCode != 137 {
		t.Errorf("container is %+v, want a second stop to end it without the grace of the first", c)
	}
	if err := s.Runtime.StopContainer(ctx, "nothing", time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("StopContainer() = %v, want canceled", err)
	}
}
