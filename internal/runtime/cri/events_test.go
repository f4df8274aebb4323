package cri

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
)

type eventStream = grpc.ServerStreamingServer[criapi.ContainerEventResponse]

func podEvent(uid string) *criapi.ContainerEventResponse {
	return &criapi.ContainerEventResponse{
		ContainerId:      "c-" + uid,
		CreatedAt:        time.Now().UnixNano(),
		PodSandboxStatus: &criapi.PodSandboxStatus{Labels: map[string]string{"io.kubernetes.pod.uid": uid}},
	}
}

// until reads events until one is about uid; "" is one about everything.
func until(t *testing.T, events <-chan runtime.Event, uid types.UID) {
	t.Helper()
	for end := time.After(20 * time.Second); ; {
		select {
		case event := <-events:
			if event.PodUID == uid {
				return
			}
		case <-end:
			t.Fatalf("no event for %q", uid)
		}
	}
}

func TestCRIEventsWhereThereIsNoContainerd(t *testing.T) {
	s := &server{events: func(stream eventStream) error {
		if err := stream.Send(podEvent("a")); err != nil {
			return err
		}
		<-stream.Context().Done()
		return nil
	}}
	events := s.client(t).Events(t.Context())
	until(t, events, "a")
	until(t, events, "")
}

func TestEventsAfterAnotherServer(t *testing.T) {
	wait := func(stream eventStream) error {
		<-stream.Context().Done()
		return nil
	}
	socket := filepath.Join(t.TempDir(), "s")
	stop := (&server{events: wait}).serve(t, socket)
	events := clientOf(t, socket, 10*time.Second).Events(t.Context())
	until(t, events, "")
	stop()
	(&server{events: func(stream eventStream) error {
		if err := stream.Send(podEvent("b")); err != nil {
			return err
		}
		return wait(stream)
	}}).serve(t, socket)
	until(t, events, "b")
	until(t, events, "")
}

func TestNoEventsAtAll(t *testing.T) {
	for name, s := range map[string]*server{
		"call unknown":      {},
		"events turned off": {events: func(eventStream) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			events := s.client(t).Events(t.Context())
			until(t, events, "")
			before := s.versions.Load()
			until(t, events, "")
			until(t, events, "")
			if s.versions.Load() == before {
				t.Error("the runtime was not asked whether it is still there")
			}
		})
	}
}

// TestStreamIsDrained sends far more than any buffer holds while nobody takes an
// event: the server must get rid of all, and each Pod must leave one hint.
func TestStreamIsDrained(t *testing.T) {
	const sent, pods = 50_000, 3
	drained := make(chan struct{})
	var once sync.Once
	s := &server{events: func(stream eventStream) error {
		for i := range sent {
			if err := stream.Send(podEvent(fmt.Sprint("pod", i%pods))); err != nil {
				return err
			}
		}
		once.Do(func() { close(drained) })
		<-stream.Context().Done()
		return nil
	}}
	events := s.client(t).Events(t.Context())
	select {
	case <-drained:
	case <-time.After(30 * time.Second):
		t.Fatal("the stream stands still")
	}
	for i := range pods {
		until(t, events, types.UID(fmt.Sprint("pod", i)))
	}
}

func TestHintsCoalesce(t *testing.T) {
	h := newHints()
	for i := range 100 {
		h.add(runtime.Event{PodUID: types.UID(fmt.Sprint(i % 2)), ContainerID: fmt.Sprint(i)})
	}
	taken := h.take()
	if len(taken) != 2 || taken["0"].ContainerID != "98" || taken["1"].ContainerID != "99" {
		t.Errorf("hints are %v, want the newest of each Pod", taken)
	}
	if rest := h.take(); len(rest) != 0 {
		t.Errorf("hints are taken twice: %v", rest)
	}
}

// TestExitIsAnnouncedWhenItShows is the race that containerd's events have with CRI.
func TestExitIsAnnouncedWhenItShows(t *testing.T) {
	var looks atomic.Int64
	s := &server{container: func(id string) (*criapi.ContainerStatus, error) {
		state := criapi.ContainerState_CONTAINER_RUNNING
		if looks.Add(1) > 3 {
			state = criapi.ContainerState_CONTAINER_EXITED
		}
		return &criapi.ContainerStatus{Id: id, State: state}, nil
	}}
	h := newHints()
	settle := newSettler(t.Context(), s.client(t), h)
	defer settle.stop()
	settle.add(runtime.Event{PodUID: "a", ContainerID: "c"}, ended(owner{id: "c", pod: "a"}))
	<-h.wake
	if n := looks.Load(); n != 4 {
		t.Errorf("announced after %d looks, want the fourth, the first to show the exit", n)
	}
}

func TestExitThatNeverShowsIsAnnouncedAllTheSame(t *testing.T) {
	s := &server{container: func(id string) (*criapi.ContainerStatus, error) {
		return &criapi.ContainerStatus{Id: id, State: criapi.ContainerState_CONTAINER_RUNNING}, nil
	}}
	h := newHints()
	settle := newSettler(t.Context(), s.client(t), h)
	defer settle.stop()
	begin := time.Now()
	settle.add(runtime.Event{PodUID: "a", ContainerID: "c"}, saysOOM(owner{id: "c", pod: "a"}))
	<-h.wake
	if took := time.Since(begin); took < patience {
		t.Errorf("announced after %s, before patience ran out", took)
	}
}
