package cri

import (
	"context"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	containerdevents "github.com/containerd/containerd/api/events"
	eventservice "github.com/containerd/containerd/api/services/events/v1"
	containerd "github.com/containerd/containerd/api/types"
	"github.com/containerd/typeurl/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"k8s.io/apimachinery/pkg/types"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
)

// exchange is containerd's event service: what is published reaches those who
// have subscribed by then.
type exchange struct {
	eventservice.UnimplementedEventsServer
	// hold is waited for between taking a subscription and making it stand.
	hold      chan struct{}
	refuse    error // for Publish
	subscribe atomic.Int64
	publish   atomic.Int64

	mu    sync.Mutex
	stand []chan *containerd.Envelope
}

func (e *exchange) Publish(_ context.Context, request *eventservice.PublishRequest) (*emptypb.Empty, error) {
	e.publish.Add(1)
	if e.refuse != nil {
		return nil, e.refuse
	}
	e.send(&containerd.Envelope{Namespace: criNamespace, Topic: request.Topic, Event: request.Event})
	return &emptypb.Empty{}, nil
}

func (e *exchange) send(envelope *containerd.Envelope) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.stand {
		c <- envelope
	}
}

func (e *exchange) Subscribe(_ *eventservice.SubscribeRequest, stream eventservice.Events_SubscribeServer) error {
	e.subscribe.Add(1)
	select {
	case <-e.hold:
	case <-stream.Context().Done():
		return nil
	}
	c := make(chan *containerd.Envelope, 1000)
	e.mu.Lock()
	e.stand = append(e.stand, c)
	e.mu.Unlock()
	for {
		select {
		case envelope := <-c:
			if err := stream.Send(envelope); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return nil
		}
	}
}

// beside is a CRI that holds containers c, d and e of the Pods pod-c, pod-d and
// pod-e, and serves e too.
func (e *exchange) beside() *server {
	s := &server{more: func(g *grpc.Server) { eventservice.RegisterEventsServer(g, e) }}
	for _, id := range []string{"c", "d", "e"} {
		s.listed = append(s.listed, &criapi.Container{Id: id, Labels: map[string]string{"io.kubernetes.pod.uid": "pod-" + id}})
	}
	return s
}

// follow follows the events of e beside a CRI.
func (e *exchange) follow(t *testing.T) <-chan runtime.Event {
	t.Helper()
	return e.beside().client(t).Events(t.Context())
}

func (e *exchange) emit(t *testing.T, topic string, payload any) {
	t.Helper()
	event, err := typeurl.MarshalAnyToProto(payload)
	if err != nil {
		t.Fatal(err)
	}
	e.send(&containerd.Envelope{Namespace: criNamespace, Topic: topic, Event: event})
}

func eventually(t *testing.T, what string, seen func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !seen(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not seen", what)
		}
	}
}

// TestConnectedMeansSubscribed is what "subscribe first, then list" stands on: the
// listener is not told to read before later changes are sure to be announced.
func TestConnectedMeansSubscribed(t *testing.T) {
	e := &exchange{hold: make(chan struct{})}
	events := e.follow(t)
	eventually(t, "marks published in vain", func() bool { return e.publish.Load() > 3 })
	select {
	case event := <-events:
		t.Fatalf("announced %+v though nothing is subscribed", event)
	default:
	}
	close(e.hold)
	until(t, events, "")
	published := e.publish.Load()
	e.emit(t, "/containers/delete", &containerdevents.ContainerDelete{ID: "unknown"})
	if event := <-events; event.PodUID != "" || event.ContainerID != "unknown" {
		t.Errorf("event is %+v, want one about everything, as nobody knows whose it was", event)
	}
	if more := e.publish.Load() - published; more > 1 {
		t.Errorf("%d marks were published after one came back", more)
	}
}

func TestSubscriptionThatCannotBeMarkedIsTriedAgain(t *testing.T) {
	e := &exchange{hold: make(chan struct{}), refuse: status.Error(codes.PermissionDenied, "no")}
	e.follow(t)
	eventually(t, "another subscription", func() bool { return e.subscribe.Load() > 1 })
}

func TestCommandsInsideAreNoExits(t *testing.T) {
	e := &exchange{hold: make(chan struct{})}
	close(e.hold)
	s := e.beside()
	s.container = func(id string) (*criapi.ContainerStatus, error) {
		return &criapi.ContainerStatus{Id: id, State: criapi.ContainerState_CONTAINER_EXITED}, nil
	}
	events := s.client(t).Events(t.Context())
	until(t, events, "")
	e.emit(t, "/tasks/exit", &containerdevents.TaskExit{ContainerID: "c", ID: "probe"})
	for _, id := range []string{"d", "e", "d"} { // by the last, all before has been announced
		e.emit(t, "/tasks/exit", &containerdevents.TaskExit{ContainerID: id, ID: id})
		for seen := types.UID(""); seen != types.UID("pod-"+id); {
			event := <-events
			if seen = event.PodUID; seen == "pod-c" {
				t.Fatalf("announced %+v though only a probe in it ended", event)
			}
		}
	}
}

// TestOOMKillIsAnnouncedWhenItShows has containerd tell of the kill before CRI
// gives it as the reason, and PID 1 end well.
func TestOOMKillIsAnnouncedWhenItShows(t *testing.T) {
	e := &exchange{hold: make(chan struct{})}
	close(e.hold)
	s := e.beside()
	var reason atomic.Value
	reason.Store("Completed")
	var looks atomic.Int64
	s.container = func(id string) (*criapi.ContainerStatus, error) {
		looks.Add(1)
		return &criapi.ContainerStatus{Id: id, State: criapi.ContainerState_CONTAINER_EXITED, Reason: reason.Load().(string)}, nil
	}
	events := s.client(t).Events(t.Context())
	until(t, events, "")
	e.emit(t, "/tasks/oom", &containerdevents.TaskOOM{ContainerID: "c"})
	e.emit(t, "/tasks/exit", &containerdevents.TaskExit{ContainerID: "c", ID: "c"})
	eventually(t, "looks at the container", func() bool { return looks.Load() > 3 })
	select {
	case event := <-events:
		t.Fatalf("announced %+v before the reason shows", event)
	default:
	}
	reason.Store("OOMKilled")
	begin := time.Now()
	until(t, events, "pod-c")
	if took := time.Since(begin); took > patience/2 {
		t.Errorf("announced %s after the reason showed", took)
	}
}

func TestNoGoroutineIsLeftBehind(t *testing.T) {
	e := &exchange{hold: make(chan struct{})}
	close(e.hold)
	c := e.beside().client(t)
	if _, err := c.Info(t.Context()); err != nil { // connects
		t.Fatal(err)
	}
	before := goruntime.NumGoroutine()
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		events := c.Events(ctx)
		until(t, events, "")
		cancel()
		for range events {
			continue
		}
	}
	eventually(t, "the number of goroutines before", func() bool { return goruntime.NumGoroutine() <= before })
}
