package endpoint

import (
	"context"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/internal/agent/downward"
)

// problem is an answer other than the one asked for.
type problem struct {
	status  int
	message string
}

func (p *problem) Error() string { return p.message }

func notFound(format string, args ...any) error {
	return &problem{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return &problem{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// findPod is the Pod that the path names; a UID in it must be the Pod's.
func (s *Server) findPod(r *http.Request) (*v1.Pod, error) {
	name := r.PathValue("pod")
	pod, ok := s.options.Pods.Pod(r.PathValue("namespace"), name)
	if uid := r.PathValue("uid"); !ok || (uid != "" && types.UID(uid) != pod.UID) {
		return nil, notFound("pod %q does not exist", name)
	}
	return pod, nil
}

// findContainer is the Pod and the name of a container in it that the path names.
func (s *Server) findContainer(r *http.Request) (*v1.Pod, string, error) {
	pod, err := s.findPod(r)
	if err != nil {
		return nil, "", err
	}
	name := r.PathValue("container")
	if downward.Container(pod, name) == nil && !hasEphemeral(pod, name) {
		return nil, "", notFound("container %q not found in pod %q", name, pod.Name)
	}
	return pod, name, nil
}

func hasEphemeral(pod *v1.Pod, name string) bool {
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return true
		}
	}
	return false
}

// running is the run of a container that streams can go to.
func (s *Server) running(ctx context.Context, pod *v1.Pod, container string) (Run, error) {
	runs, err := s.options.Pods.Runs(ctx, pod.UID, container)
	if err != nil {
		return Run{}, err
	}
	if len(runs) == 0 || !runs[0].Running {
		return Run{}, notFound("container not found (%q)", container)
	}
	return runs[0], nil
}

// logged is the run whose log is asked for: the newest, or the one that ended
// before it.
func (s *Server) logged(ctx context.Context, pod *v1.Pod, container string, previous bool) (Run, error) {
	runs, err := s.options.Pods.Runs(ctx, pod.UID, container)
	if err != nil {
		return Run{}, err
	}
	if previous {
		return previousRun(pod, container, runs)
	}
	if len(runs) == 0 {
		return Run{}, badRequest("%s", notStarted(pod, container))
	}
	return runs[0], nil
}

// previousRun is the last run that is over. While a container waits for its next
// run that is the newest; one that runs, or has ended for good, has one before.
func previousRun(pod *v1.Pod, container string, runs []Run) (Run, error) {
	status := statusOf(pod, container)
	waits := status != nil && status.State.Waiting != nil
	if len(runs) > 0 && !(waits && !runs[0].Running) {
		runs = runs[1:]
	}
	if len(runs) == 0 {
		return Run{}, badRequest("previous terminated container %q in pod %q not found", container, pod.Name)
	}
	return runs[0], nil
}

// notStarted says, in Kubernetes' words, why a container has no log yet.
func notStarted(pod *v1.Pod, container string) string {
	reason := "no logs yet"
	if status := statusOf(pod, container); status != nil && status.State.Waiting != nil {
		reason = status.State.Waiting.Reason
	}
	switch reason {
	case "no logs yet", "":
		return fmt.Sprintf("container %q in pod %q is waiting to start - no logs yet", container, pod.Name)
	case "ErrImagePull":
		reason = "image can't be pulled"
	case "ImagePullBackOff":
		reason = "trying and failing to pull image"
	}
	return fmt.Sprintf("container %q in pod %q is waiting to start: %s", container, pod.Name, reason)
}

func statusOf(pod *v1.Pod, container string) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == container {
				return &list[i]
			}
		}
	}
	return nil
}
