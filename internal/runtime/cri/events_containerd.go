package cri

import (
	"context"
	"fmt"
	"time"

	events "github.com/containerd/containerd/api/events"
	eventservice "github.com/containerd/containerd/api/services/events/v1"
	containerd "github.com/containerd/containerd/api/types"
	"github.com/containerd/typeurl/v2"
	"google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/util/uuid"

	"muster.dev/muster/internal/runtime"
)

const (
	// criNamespace is where containerd's CRI plugin keeps everything it makes.
	criNamespace = "k8s.io"
	// markTopic is the topic of our own event, by which we see that the
	// subscription stands. Nothing else listens to it.
	markTopic = "/muster/subscribed"
)

// filters select the containerd events that change what a Pod looks like, and our mark.
var filters = []string{
	`namespace==k8s.io,topic=="/tasks/start"`,
	`namespace==k8s.io,topic=="/tasks/exit"`,
	`namespace==k8s.io,topic=="/tasks/delete"`,
	`namespace==k8s.io,topic=="/tasks/oom"`,
	`namespace==k8s.io,topic=="/sandboxes/exit"`,
	`namespace==k8s.io,topic=="/containers/create"`,
	`namespace==k8s.io,topic=="/containers/delete"`,
	`namespace==k8s.io,topic=="` + markTopic + `"`,
}

// readContainerdEvents follows containerd's own event service, which shares the
// socket with CRI. Its events come before CRI shows what they announce, so hints
// of exits and OOM kills wait until it does.
func (c *Client) readContainerdEvents(ctx context.Context, h *hints, connected func()) error {
	ctx, cancel := context.WithCancelCause(metadata.AppendToOutgoingContext(ctx, "containerd-namespace", criNamespace))
	defer cancel(nil)
	service := eventservice.NewEventsClient(c.conn)
	stream, err := service.Subscribe(ctx, &eventservice.SubscribeRequest{Filters: filters})
	if err != nil {
		return fmt.Errorf("subscribing to containerd's events: %w", err)
	}
	mark := newMark(ctx, service, cancel)
	defer mark.stop()
	settle := newSettler(ctx, c, h)
	defer settle.stop()
	owners := newOwners(c)
	for {
		envelope, err := stream.Recv()
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil {
			return fmt.Errorf("reading containerd's events: %w", err)
		}
		if envelope.Topic != markTopic {
			c.take(ctx, envelope, owners, settle, h)
			continue
		}
		if mark.seen(envelope) {
			if err := owners.learn(ctx); err != nil {
				return err
			}
			connected()
		}
	}
}

// take turns one event into a hint, now or once the state it announces shows.
func (c *Client) take(ctx context.Context, envelope *containerd.Envelope, owners *owners, settle *settler, h *hints) {
	message, err := typeurl.UnmarshalAny(envelope.Event)
	if err != nil {
		c.log.Warn("event cannot be read", "topic", envelope.Topic, "error", err)
		h.add(runtime.Event{At: time.Now()})
		return
	}
	now := time.Now()
	hint := func(id string) (owner, runtime.Event) {
		o := owners.of(ctx, id)
		return o, runtime.Event{PodUID: o.pod, ContainerID: id, At: now}
	}
	switch event := message.(type) {
	case *events.TaskExit:
		if event.ID != event.ContainerID {
			return // the end of a command run inside, such as a probe's
		}
		owner, e := hint(event.ContainerID)
		settle.add(e, ended(owner))
	case *events.TaskDelete:
		settle.lookNow() // CRI shows an exit right after it has deleted the task
	case *events.SandboxExit:
		owner, e := hint(event.SandboxID)
		owner.sandbox = true
		settle.add(e, ended(owner))
	case *events.TaskOOM:
		owner, e := hint(event.ContainerID)
		settle.add(e, saysOOM(owner))
	case *events.TaskStart:
		_, e := hint(event.ContainerID)
		h.add(e)
	case *events.ContainerCreate:
		owners.of(ctx, event.ID) // learned while it is there to be asked about
	case *events.ContainerDelete:
		_, e := hint(event.ID)
		h.add(e)
		owners.forget(event.ID)
	}
}

// mark is our own event, published until it comes back: only then is it sure that
// no later event can be missed, since containerd does not say when a subscription
// stands.
type mark struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
}

// newMark begins to publish; fail is told why it cannot.
func newMark(ctx context.Context, service eventservice.EventsClient, fail context.CancelCauseFunc) *mark {
	ctx, cancel := context.WithCancel(ctx)
	m := &mark{name: string(uuid.NewUUID()), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		if err := m.publish(ctx, service); err != nil {
			fail(fmt.Errorf("marking the stream of containerd's events: %w", err))
		}
	}()
	return m
}

func (m *mark) publish(ctx context.Context, service eventservice.EventsClient) error {
	payload, err := typeurl.MarshalAnyToProto(&events.NamespaceUpdate{Name: m.name})
	if err != nil {
		return err
	}
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		_, err := service.Publish(ctx, &eventservice.PublishRequest{Topic: markTopic, Event: payload})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if !pause(ctx, wait) {
			return nil
		}
	}
}

// seen is true for the first return of this mark.
func (m *mark) seen(envelope *containerd.Envelope) bool {
	var event events.NamespaceUpdate
	if typeurl.UnmarshalTo(envelope.Event, &event) != nil || event.Name != m.name {
		return false
	}
	select {
	case <-m.done:
		return false
	default:
		m.stop()
		return true
	}
}

// stop ends the publishing and waits for its end.
func (m *mark) stop() {
	m.cancel()
	<-m.done
}
