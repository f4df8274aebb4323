package fake_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	seam "muster.dev/muster/internal/runtime"
	"muster.dev/muster/internal/runtime/fake"
	"muster.dev/muster/internal/runtime/runtimetest"
)

func TestWhatHappensBehindTheAgentsBack(t *testing.T) {
	r := fake.New(fake.Options{})
	box, id := start(t, r, "a", 0)
	r.Kill(id, 137, "OOMKilled")
	if c := only(t, r, "a"); c.State != seam.Exited || c.ExitCode != 137 || c.Reason != "OOMKilled" {
		t.Errorf("container is %+v, want killed", c)
	}
	r.Kill(id, 0, "")
	if c := only(t, r, "a"); c.ExitCode != 137 {
		t.Errorf("container is %+v, was killed twice", c)
	}
	lost, second := start(t, r, "b", 0)
	r.LoseSandbox(lost)
	pod, err := r.Pod(t.Context(), "b")
	if err != nil || pod.Sandboxes[0].Ready || pod.Containers[0].ID != second || pod.Containers[0].State != seam.Exited {
		t.Errorf("Pod() = %+v, %v, want its sandbox lost", pod, err)
	}
	if pod, _ := r.Pod(t.Context(), "a"); !pod.Sandboxes[0].Ready || pod.Sandboxes[0].ID != box {
		t.Errorf("another Pod's sandbox is %+v", pod.Sandboxes[0])
	}
}

func TestDisconnect(t *testing.T) {
	clock := testclock.NewFakeClock(epoch)
	r := fake.New(fake.Options{Clock: clock, Script: fake.Script{Container: func(fake.Start) fake.Run {
		return fake.Run{Ends: true, After: time.Second}
	}}})
	_, id := start(t, r, "a", 0)
	events := r.Events(t.Context())
	<-events
	r.Disconnect()
	if _, err := r.List(t.Context()); !errors.Is(err, seam.ErrUnreachable) {
		t.Errorf("List() = %v, want unreachable", err)
	}
	if err := r.StopContainer(t.Context(), id, 0); !errors.Is(err, seam.ErrUnreachable) {
		t.Errorf("StopContainer() = %v, want unreachable", err)
	}
	clock.Step(time.Second)
	runtimetest.Await(t, "the container's end", func() (bool, string) { return !clock.HasWaiters(), "it is due" })
	r.Connect()
	for e := <-events; e.PodUID != ""; {
		e = <-events
	}
	runtimetest.Await(t, "the container's end", func() (bool, string) {
		c := only(t, r, "a")
		return c.State == seam.Exited, fmt.Sprintf("%+v", c)
	})
}

func TestSlowListenerIsToldThatAnythingMayHaveChanged(t *testing.T) {
	r := fake.New(fake.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	events := r.Events(ctx)
	for i := range 200 {
		start(t, r, fmt.Sprint("pod-", i), 0)
	}
	cancel()
	var last []seam.Event
	for e := range events {
		last = append(last, e)
	}
	if n := len(last); n == 0 || n > 100 || last[n-1].PodUID != "" {
		t.Errorf("%d events wait, the last %+v, want few and the last one about everything", n, last[max(0, n-1):])
	}
}

// TestManyCostLittle keeps simulated fleets cheap: nodes whose containers run for
// ever, or whose next end is far away, have no goroutine.
func TestManyCostLittle(t *testing.T) {
	before := runtime.NumGoroutine()
	var nodes []*fake.Runtime
	for range 2000 {
		r := fake.New(fake.Options{Script: fake.Script{Container: func(fake.Start) fake.Run {
			return fake.Run{Ends: true, After: time.Hour}
		}}})
		r.Events(t.Context())
		start(t, r, "a", 0)
		nodes = append(nodes, r)
	}
	if more := runtime.NumGoroutine() - before; more > 10 {
		t.Errorf("%d nodes cost %d goroutines", len(nodes), more)
	}
}
