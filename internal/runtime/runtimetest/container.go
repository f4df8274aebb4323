package runtimetest

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"muster.dev/muster/internal/runtime"
)

func (s *suite) testContainerLife(t *testing.T) {
	p := s.newPod(t)
	events := p.events()
	id := p.create("main", 3, "wait", "7")
	c := p.container(id)
	if c.State != runtime.Created || c.Name != "main" || c.Attempt != 3 || c.SandboxID != p.sandboxID || c.CreatedAt.IsZero() || !c.StartedAt.IsZero() {
		t.Errorf("created container is %+v", c)
	}
	if c.Image != ProgImage || c.ImageID == "" || !strings.HasSuffix(c.LogPath, "/main.log") {
		t.Errorf("created container has image %q %q and log %q", c.Image, c.ImageID, c.LogPath)
	}
	config := p.containerConfig("main", 3)
	if !reflect.DeepEqual(c.Labels, config.Labels) || !reflect.DeepEqual(c.Annotations, config.Annotations) {
		t.Errorf("container carries %v, %v, want what it was made with", c.Labels, c.Annotations)
	}
	must(t, s.Runtime.StartContainer(t.Context(), id))
	if c := p.container(id); c.State != runtime.Running || c.StartedAt.Before(c.CreatedAt) || !c.FinishedAt.IsZero() {
		t.Errorf("started container is %+v", c)
	}
	p.untilWaiting(id)
	must(t, s.Runtime.StopContainer(t.Context(), id, 10*time.Second))
	c = p.untilExited(events, id)
	if c.ExitCode != 7 || c.FinishedAt.Before(c.StartedAt) {
		t.Errorf("ended container is %+v, want exit code 7", c)
	}
	must(t, s.Runtime.RemoveContainer(t.Context(), id))
	if observed := p.read(); len(observed.Containers) != 0 || len(observed.Sandboxes) != 1 {
		t.Errorf("Pod is %+v, want the sandbox alone", observed)
	}
}

func (s *suite) testExitCodes(t *testing.T) {
	p := s.newPod(t)
	events := p.events()
	for code, want := range map[string]struct {
		code   int32
		reason string
	}{"0": {0, "Completed"}, "1": {1, "Error"}, "42": {42, "Error"}, "255": {255, "Error"}} {
		c := p.untilExited(events, p.start("exit"+code, "exit", code))
		if c.ExitCode != want.code || c.Reason != want.reason {
			t.Errorf("exit %s is seen as %d %s", code, c.ExitCode, c.Reason)
		}
	}
}

func (s *suite) testContainerAttempts(t *testing.T) {
	p := s.newPod(t)
	events := p.events()
	first := p.start("main", "exit", "1")
	p.untilExited(events, first)
	if _, err := s.Runtime.CreateContainer(t.Context(), p.sandboxID, p.containerConfig("main", 0, "exit", "0"), p.config); err == nil {
		t.Error("the same attempt was made twice")
	}
	second := p.create("main", 1, "exit", "0")
	containers := p.read().Containers
	if len(containers) != 2 || containers[0].ID != first || containers[1].ID != second || containers[1].Attempt != 1 {
		t.Errorf("containers are %+v, want the oldest first", containers)
	}
}

func (s *suite) testLog(t *testing.T) {
	p := s.newPod(t)
	events := p.events()
	c := p.untilExited(events, p.start("main", "print", "hello", "exit", "0"))
	Await(t, "the log's line", func() (bool, string) {
		text, err := os.ReadFile(c.LogPath)
		if err != nil {
			return false, err.Error()
		}
		fields := strings.SplitN(strings.TrimSuffix(string(text), "\n"), " ", 4)
		if len(fields) != 4 {
			return false, string(text)
		}
		_, err = time.Parse(time.RFC3339Nano, fields[0])
		return err == nil && fields[1] == "stdout" && fields[2] == "F" && fields[3] == "hello", string(text)
	})
}

func (s *suite) testReopenLog(t *testing.T) {
	p := s.newPod(t)
	id := p.start("main", "wait", "0")
	path := p.container(id).LogPath
	must(t, os.Rename(path, path+".old"))
	must(t, s.Runtime.ReopenLog(t.Context(), id))
	if _, err := os.Stat(path); err != nil {
		t.Errorf("no new log file: %v", err)
	}
	must(t, s.Runtime.StopContainer(t.Context(), id, 0))
	if err := s.Runtime.ReopenLog(t.Context(), "nothing"); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("reopening nothing: %v, want not found", err)
	}
}

func (s *suite) testStartRefused(t *testing.T) {
	p := s.newPod(t)
	events := p.events()
	if err := s.Runtime.StartContainer(t.Context(), "nothing"); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("starting nothing: %v, want not found", err)
	}
	config := p.containerConfig("main", 0)
	config.Image.Image = "muster.test/never-was:1"
	if _, err := s.Runtime.CreateContainer(t.Context(), p.sandboxID, config, p.config); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("creating from no image: %v, want not found", err)
	}
	id := p.start("again", "exit", "0")
	p.untilExited(events, id)
	if err := s.Runtime.StartContainer(t.Context(), id); err == nil {
		t.Error("an ended container started again")
	}
}

func (s *suite) testStopGraceful(t *testing.T) {
	p := s.newPod(t)
	id := p.start("main", "wait", "5")
	must(t, s.Runtime.StopContainer(t.Context(), id, time.Minute))
	if c := p.container(id); c.State != runtime.Exited || c.ExitCode != 5 {
		t.Errorf("stopped container is %+v, want ended by itself with 5 when the stop returns", c)
	}
}

func (s *suite) testStopKill(t *testing.T) {
	p := s.newPod(t)
	id := p.start("main", "stubborn")
	begin := time.Now()
	must(t, s.Runtime.StopContainer(t.Context(), id, time.Second))
	if took := time.Since(begin); took < 900*time.Millisecond {
		t.Errorf("killed after %s, before its grace of 1 s", took)
	}
	if c := p.container(id); c.State != runtime.Exited || c.ExitCode != 137 || c.Reason != "Error" {
		t.Errorf("killed container is %+v, want 137 Error", c)
	}
}

func (s *suite) testStopNow(t *testing.T) {
	p := s.newPod(t)
	id := p.start("main", "wait", "5")
	must(t, s.Runtime.StopContainer(t.Context(), id, 0))
	if c := p.container(id); c.State != runtime.Exited || c.ExitCode != 137 {
		t.Errorf("container is %+v, want 137 as it got no time to end", c)
	}
}

func (s *suite) testStats(t *testing.T) {
	p := s.newPod(t)
	id := p.start("main", "eat", "20", "wait", "0")
	Await(t, "statistics", func() (bool, string) {
		stats, err := s.Runtime.Stats(t.Context())
		if err != nil {
			return false, err.Error()
		}
		use, ok := stats[id]
		if !ok || use.WorkingSet < 20<<20 || use.CPUNanos == 0 || use.At.IsZero() {
			return false, strings.TrimSpace(strings.Join([]string{id, use.At.String()}, " "))
		}
		return true, ""
	})
}
