package cri_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
	"muster.dev/muster/internal/runtime/cri"
	"muster.dev/muster/internal/runtime/runtimetest"
)

const podUID = "5f0b3f9e-1111-4222-8333-444455556666"

// realPod is a Pod in a private containerd.
type realPod struct {
	t         *testing.T
	client    *cri.Client
	config    *criapi.PodSandboxConfig
	sandboxID string
}

func startPod(t *testing.T, c *runtimetest.Containerd) *realPod {
	t.Helper()
	p := &realPod{t: t, client: connectTo(t, c), config: &criapi.PodSandboxConfig{
		Metadata:     &criapi.PodSandboxMetadata{Name: "pod", Namespace: "test", Uid: podUID},
		LogDirectory: t.TempDir(),
		Labels:       map[string]string{"io.kubernetes.pod.uid": podUID},
		Linux:        &criapi.LinuxPodSandboxConfig{CgroupParent: c.CgroupParent},
	}}
	var err error
	if p.sandboxID, err = p.client.RunSandbox(t.Context(), p.config, ""); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *realPod) start(memory int64, args ...string) string {
	p.t.Helper()
	id, err := p.client.CreateContainer(p.t.Context(), p.sandboxID, &criapi.ContainerConfig{
		Metadata: &criapi.ContainerMetadata{Name: strings.Join(args, "")},
		Image:    &criapi.ImageSpec{Image: runtimetest.ProgImage},
		Args:     args,
		Labels:   p.config.Labels,
		Linux:    &criapi.LinuxContainerConfig{Resources: &criapi.LinuxContainerResources{MemoryLimitInBytes: memory}},
	}, p.config)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.client.StartContainer(p.t.Context(), id); err != nil {
		p.t.Fatal(err)
	}
	return id
}

// await reads the Pod upon each event until a container is as wanted.
func (p *realPod) await(events <-chan runtime.Event, id string, wanted func(runtime.Container) bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	for {
		pod, err := p.client.Pod(ctx, podUID)
		for _, c := range pod.Containers {
			if c.ID == id && wanted(c) {
				return
			}
		}
		select {
		case <-events:
		case <-ctx.Done():
			p.t.Fatalf("no event led to the container wanted; last read: %+v, %v", pod, err)
		}
	}
}

func TestOOMKilledIsTheReason(t *testing.T) {
	p := startPod(t, runtimetest.StartContainerd(t))
	events := p.client.Events(t.Context())
	killed := p.start(30<<20, "eat", "200", "exit", "0")
	p.await(events, killed, func(c runtime.Container) bool {
		return c.State == runtime.Exited && c.ExitCode == 137 && c.Reason == "OOMKilled"
	})
	// The kernel picks the child, which is the bigger one; PID 1 then ends well,
	// but late enough for containerd to have seen the kill: it looks for it in the
	// container's cgroup, which goes with PID 1.
	survived := p.start(30<<20, "child", "eat", "200")
	p.await(events, survived, func(c runtime.Container) bool {
		return c.State == runtime.Exited && c.ExitCode == 0 && c.Reason == "OOMKilled"
	})
}

func TestLostSandboxIsAnnounced(t *testing.T) {
	c := runtimetest.StartContainerd(t)
	p := startPod(t, c)
	events := p.client.Events(t.Context())
	until := func(ready bool) {
		t.Helper()
		limit := time.After(20 * time.Second)
		for {
			pod, err := p.client.Pod(t.Context(), podUID)
			if err == nil && len(pod.Sandboxes) == 1 && pod.Sandboxes[0].Ready == ready {
				return
			}
			select {
			case <-events:
			case <-limit:
				t.Fatalf("no event led to a sandbox with ready %t: %+v, %v", ready, pod, err)
			}
		}
	}
	until(true)
	<-events // connected: what comes now comes from the sandbox's end
	kill := exec.Command("ctr", "--address", strings.TrimPrefix(c.Endpoint, "unix://"), "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", p.sandboxID)
	if out, err := kill.CombinedOutput(); err != nil {
		t.Fatalf("killing the sandbox: %v: %s", err, out)
	}
	until(false)
}

func TestEventsOutliveContainerd(t *testing.T) {
	c := runtimetest.StartContainerd(t)
	p := startPod(t, c)
	events := p.client.Events(t.Context())
	id := p.start(0, "wait", "6")
	c.Kill(t)
	if _, err := p.client.Info(t.Context()); err == nil {
		t.Fatal("a killed containerd answered")
	}
	for drained := false; !drained; {
		select {
		case <-events:
		default:
			drained = true
		}
	}
	c.Start(t)
	for {
		event := <-events
		if event.PodUID == "" {
			break // everything may have changed while nobody was connected
		}
	}
	p.await(events, id, func(c runtime.Container) bool { return c.State == runtime.Running })
	go func() { _ = p.client.StopContainer(t.Context(), id, 10*time.Second) }() // what it did is awaited
	p.await(events, id, func(c runtime.Container) bool { return c.State == runtime.Exited && c.ExitCode == 6 })
}

func TestPullFailuresAreToldApart(t *testing.T) {
	c := runtimetest.StartContainerd(t)
	client := connectTo(t, c)
	for name, test := range map[string]struct {
		status int
		want   error
	}{
		"no such image":      {http.StatusNotFound, runtime.ErrImageNotFound},
		"registry overrun":   {http.StatusServiceUnavailable, runtime.ErrRegistryUnavailable},
		"registry forbids":   {http.StatusForbidden, runtime.ErrPullFailed},
		"registry confusing": {http.StatusTeapot, runtime.ErrPullFailed},
	} {
		t.Run(name, func(t *testing.T) {
			registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(test.status) }))
			defer registry.Close()
			_, err := client.PullImage(t.Context(), strings.TrimPrefix(registry.URL, "http://")+"/x:1", nil, nil)
			assertKind(t, err, test.want, runtime.ErrImageNotFound, runtime.ErrRegistryUnavailable)
		})
	}
}

func TestPull(t *testing.T) {
	client := connectTo(t, runtimetest.StartContainerd(t))
	registry := runtimetest.StartRegistry(t)
	registry.Username, registry.Password = "me", "secret"
	if _, err := client.PullImage(t.Context(), registry.Image, nil, nil); !errors.Is(err, runtime.ErrPullFailed) {
		t.Errorf("PullImage() = %v without credentials, want a failed pull", err)
	}
	ref, err := client.PullImage(t.Context(), registry.Image, &criapi.AuthConfig{Username: "me", Password: "secret"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	repository := strings.TrimSuffix(registry.Image, ":1")
	for _, name := range []string{registry.Image, repository + "@" + registry.Digest, ref} {
		image, err := client.Image(t.Context(), name)
		if err != nil || image == nil || !slices.Contains(image.RepoTags, registry.Image) || !slices.Contains(image.RepoDigests, repository+"@"+registry.Digest) {
			t.Errorf("Image(%q) = %+v, %v, want what was pulled", name, image, err)
		}
	}
	if err := client.RemoveImage(t.Context(), registry.Image); err != nil {
		t.Fatal(err)
	}
	if image, err := client.Image(t.Context(), repository+"@"+registry.Digest); image != nil || err != nil {
		t.Errorf("Image() = %+v, %v, want all its names removed", image, err)
	}
}

func TestStreamsHaveAddresses(t *testing.T) {
	p := startPod(t, runtimetest.StartContainerd(t))
	id := p.start(0, "wait", "0")
	exec, err := p.client.Exec(t.Context(), &criapi.ExecRequest{ContainerId: id, Cmd: []string{"/prog", "exit", "0"}, Stdout: true})
	if err != nil || exec.Host == "" {
		t.Errorf("Exec() = %v, %v, want an address", exec, err)
	}
	attach, err := p.client.Attach(t.Context(), &criapi.AttachRequest{ContainerId: id, Stdout: true})
	if err != nil || attach.Host == "" {
		t.Errorf("Attach() = %v, %v, want an address", attach, err)
	}
	forward, err := p.client.PortForward(t.Context(), &criapi.PortForwardRequest{PodSandboxId: p.sandboxID, Port: []int32{80}})
	if err != nil || forward.Host == "" {
		t.Errorf("PortForward() = %v, %v, want an address", forward, err)
	}
}
