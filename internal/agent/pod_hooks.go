package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"muster.dev/muster/internal/podplan"
)

// preStop runs a container's preStop hook within its grace period. A hook that
// fails does not keep the container.
func (w *worker) preStop(ctx context.Context, pod *v1.Pod, container *v1.Container, seen podplan.Observed, a podplan.Action) {
	ctx, cancel := context.WithTimeout(ctx, a.Grace)
	defer cancel()
	if err := w.hook(ctx, container.Lifecycle.PreStop, container, a.ID, a.Grace, podIPs(pod, seen, w.hostIPs)); err != nil && !errors.Is(context.Cause(ctx), context.Canceled) {
		w.events.Container(pod, container.Name, v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
		w.log.Warn("A preStop hook failed", "container", container.Name, "err", err)
	}
}

// postStart runs a container's postStart hook; one that fails ends the container.
func (w *worker) postStart(ctx context.Context, pod *v1.Pod, container *v1.Container, seen podplan.Observed, id string) {
	if container.Lifecycle == nil || container.Lifecycle.PostStart == nil {
		return
	}
	w.poke() // it runs: the status says so while the hook goes on
	err := w.hook(ctx, container.Lifecycle.PostStart, container, id, 0, podIPs(pod, seen, w.hostIPs))
	if err == nil || ctx.Err() != nil { // the agent stops; the container goes on
		return
	}
	w.events.Container(pod, container.Name, v1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
	w.log.Warn("A postStart hook failed, ending its container", "container", container.Name, "err", err)
	grace := v1.DefaultTerminationGracePeriodSeconds * time.Second
	if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	if err := w.runtime.StopContainer(ctx, id, grace); err != nil {
		w.log.Error("Ending a container after its failed postStart hook failed", "container", container.Name, "err", err)
	}
}

func (w *worker) hook(ctx context.Context, handler *v1.LifecycleHandler, container *v1.Container, id string, limit time.Duration, ips []string) error {
	switch {
	case handler.Exec != nil:
		result, err := w.runtime.ExecSync(ctx, id, handler.Exec.Command, limit)
		if err == nil && result.ExitCode != 0 {
			err = fmt.Errorf("command exited with %d: %s", result.ExitCode, result.Stderr)
		}
		return err
	case handler.HTTPGet != nil:
		return httpHook(ctx, handler.HTTPGet, container, ips)
	case handler.Sleep != nil:
		select {
		case <-w.clock.After(time.Duration(handler.Sleep.Seconds) * time.Second):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return errors.New("the hook has no handler that can be run")
}

// httpHook asks for an address; any answer below 400 is a success. Like a probe's,
// the server's certificate is not checked: it is the Pod's own.
func httpHook(ctx context.Context, get *v1.HTTPGetAction, container *v1.Container, ips []string) error {
	port, err := hookPort(get.Port, container)
	if err != nil {
		return err
	}
	host := get.Host
	if host == "" && len(ips) > 0 {
		host = ips[0]
	}
	scheme := strings.ToLower(string(get.Scheme))
	setDefault(&scheme, "http")
	url := fmt.Sprintf("%s://%s/%s", scheme, net.JoinHostPort(host, port), strings.TrimPrefix(get.Path, "/"))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	for _, header := range get.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
	}
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s answered %s", url, answer.Status)
	}
	return nil
}

func hookPort(port intstr.IntOrString, container *v1.Container) (string, error) {
	if port.Type == intstr.Int {
		return port.String(), nil
	}
	for _, p := range container.Ports {
		if p.Name == port.StrVal {
			return fmt.Sprint(p.ContainerPort), nil
		}
	}
	return "", fmt.Errorf("container %s has no port named %s", container.Name, port.StrVal)
}

// podIPs are the Pod's addresses: its sandbox's, or the node's on the host network.
func podIPs(pod *v1.Pod, seen podplan.Observed, hostIPs []string) []string {
	if pod.Spec.HostNetwork {
		return hostIPs
	}
	if len(seen.Sandboxes) == 0 {
		return nil
	}
	return seen.Sandboxes[0].IPs
}
