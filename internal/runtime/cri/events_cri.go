package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"muster.dev/muster/internal/runtime"
)

// CRI does not say when a subscription stands: a runtime without these events
// refuses at once, and one that has them subscribes us soon after. So everything
// is announced as possibly changed twice, early for a quick start and late for
// what happened in between.
const (
	accepted   = 50 * time.Millisecond
	subscribed = 500 * time.Millisecond
)

// readCRIEvents follows CRI's own container events. They come after the status
// they announce, so nothing has to settle.
func (c *Client) readCRIEvents(ctx context.Context, h *hints, connected func()) error {
	if _, err := c.Info(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.runtime.GetContainerEvents(ctx, &cri.GetEventsRequest{})
	if err != nil {
		return fmt.Errorf("subscribing to container events: %w", err)
	}
	opened, heard := time.Now(), false
	defer time.AfterFunc(accepted, connected).Stop()
	defer time.AfterFunc(subscribed, connected).Stop()
	for {
		event, err := stream.Recv()
		// CRI-O ends the stream at once when its events are switched off.
		if errors.Is(err, io.EOF) && !heard && time.Since(opened) < subscribed {
			return errNoEvents
		}
		if err != nil {
			return fmt.Errorf("reading container events: %w", err)
		}
		heard = true
		h.add(runtime.Event{PodUID: podOfEvent(event), ContainerID: event.ContainerId, At: at(event.CreatedAt)})
	}
}

// podOfEvent is empty, so that everything is read again, where the runtime left
// the status out (it does when the sandbox is already gone).
func podOfEvent(event *cri.ContainerEventResponse) types.UID {
	if uid := event.GetPodSandboxStatus().GetLabels()[kubelettypes.KubernetesPodUIDLabel]; uid != "" {
		return types.UID(uid)
	}
	for _, status := range event.GetContainersStatuses() {
		if uid := status.GetLabels()[kubelettypes.KubernetesPodUIDLabel]; uid != "" {
			return types.UID(uid)
		}
	}
	return types.UID(event.GetPodSandboxStatus().GetMetadata().GetUid())
}
