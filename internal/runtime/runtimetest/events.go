package runtimetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"muster.dev/muster/internal/runtime"
)

// testExitEvent is what init steps live by: upon the event of an exit, one read
// shows the exit, with nothing more to wait for.
func (s *suite) testExitEvent(t *testing.T) {
	p := s.newPod(t)
	events := p.events()
	id := p.start("main", "sleep", "100ms", "exit", "3")
	for {
		event := next(t, events)
		if event.At.IsZero() {
			t.Errorf("event %+v has no time", event)
		}
		if event.PodUID != p.uid || event.ContainerID != id {
			continue
		}
		if c := p.container(id); c.State == runtime.Exited {
			if c.ExitCode != 3 {
				t.Errorf("container is %+v, want exit code 3", c)
			}
			return
		}
	}
}

func (s *suite) testRemovalEvent(t *testing.T) {
	p := s.newPod(t)
	events := p.events()
	id := p.start("main", "exit", "0")
	p.untilExited(events, id)
	must(t, s.Reconnect(t).RemoveContainer(t.Context(), id))
	for len(p.read().Containers) > 0 {
		next(t, events)
	}
	for e := next(t, events); e.PodUID != p.uid || e.ContainerID != id; {
		e = next(t, events)
	}
}

func (s *suite) testEveryListener(t *testing.T) {
	p := s.newPod(t)
	one, two := p.events(), p.events()
	id := p.start("main", "exit", "0")
	p.untilExited(one, id)
	p.untilExited(two, id)
	must(t, s.Runtime.RemoveContainer(t.Context(), id))
	for _, events := range []<-chan runtime.Event{one, two} {
		for e := next(t, events); e.PodUID != p.uid && e.PodUID != ""; {
			e = next(t, events)
		}
	}
}

// testSlowListener has one listener that takes nothing while another lives through
// dozens of events: what the first then finds still leads it to the Pod.
func (s *suite) testSlowListener(t *testing.T) {
	p := s.newPod(t)
	slow, prompt := p.events(), p.events()
	for i := range 20 {
		p.untilExited(prompt, p.start(fmt.Sprint("c", i), "exit", "0"))
	}
	for e := next(t, slow); e.PodUID != p.uid && e.PodUID != ""; {
		e = next(t, slow)
	}
}

func (s *suite) testEventsClose(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	events := s.Runtime.Events(ctx)
	cancel()
	end := time.After(patience)
	for {
		select {
		case _, open := <-events:
			if !open {
				return
			}
		case <-end:
			t.Fatal("the channel does not close")
		}
	}
}

func (s *suite) testReconnect(t *testing.T) {
	p := s.newPod(t)
	running := p.start("running", "wait", "0")
	events := p.events()
	ended := p.start("ended", "exit", "9")
	p.untilExited(events, ended)

	p.suite = &suite{Subject: Subject{Runtime: s.Reconnect(t), Reconnect: s.Reconnect}}
	if c := p.container(running); c.State != runtime.Running {
		t.Errorf("container is %+v, want still running", c)
	}
	if c := p.container(ended); c.State != runtime.Exited || c.ExitCode != 9 {
		t.Errorf("container is %+v, want still ended with 9", c)
	}
	fresh := p.events()
	must(t, p.Runtime.StopContainer(t.Context(), running, 10*time.Second))
	p.untilExited(fresh, running)
	all, err := p.Runtime.List(t.Context())
	if err != nil || len(all[p.uid].Containers) != 2 || len(all[p.uid].Sandboxes) != 1 {
		t.Errorf("List() has %+v, %v for the Pod", all[p.uid], err)
	}
}
