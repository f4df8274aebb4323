package runtimetest

import (
	"net/netip"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
)

func (s *suite) testInfo(t *testing.T) {
	info, err := s.Runtime.Info(t.Context())
	if err != nil || info.Name == "" || info.Version == "" || info.APIVersion == "" {
		t.Errorf("Info() = %+v, %v, want all of it", info, err)
	}
	status, err := s.Runtime.Status(t.Context())
	if err != nil || !status.RuntimeReady || !status.NetworkReady {
		t.Errorf("Status() = %+v, %v, want ready", status, err)
	}
	if len(status.Handlers) == 0 || status.Handlers[0] != "" {
		t.Errorf("handlers are %q, want the default one first", status.Handlers)
	}
	if status.CgroupDriver == "" {
		t.Error("no cgroup driver")
	}
}

func (s *suite) testSandboxLife(t *testing.T) {
	p := s.newPod(t)
	observed := p.read()
	if observed.UID != p.uid || observed.Name != "pod" || observed.Namespace != "test" || len(observed.Sandboxes) != 1 {
		t.Fatalf("Pod() = %+v, want one sandbox of test/pod", observed)
	}
	box := observed.Sandboxes[0]
	if box.ID != p.sandboxID || !box.Ready || box.HostNetwork || box.CreatedAt.IsZero() {
		t.Errorf("sandbox is %+v, want ready, on the Pod network, with its time", box)
	}
	if !reflect.DeepEqual(box.Labels, p.config.Labels) || !reflect.DeepEqual(box.Annotations, p.config.Annotations) {
		t.Errorf("sandbox carries %v, %v, want what it was made with", box.Labels, box.Annotations)
	}
	if len(box.IPs) != 1 {
		t.Fatalf("addresses are %v, want one", box.IPs)
	}
	if _, err := netip.ParseAddr(box.IPs[0]); err != nil {
		t.Error(err)
	}
	must(t, s.Runtime.StopSandbox(t.Context(), p.sandboxID))
	if box := p.read().Sandboxes[0]; box.Ready {
		t.Errorf("stopped sandbox is %+v", box)
	}
	must(t, s.Runtime.RemoveSandbox(t.Context(), p.sandboxID))
	if observed := p.read(); !reflect.DeepEqual(observed, runtime.Pod{}) {
		t.Errorf("removed Pod is %+v, want nothing", observed)
	}
}

func (s *suite) testUnknownPod(t *testing.T) {
	observed, err := s.Runtime.Pod(t.Context(), types.UID("nobody"))
	if err != nil || !reflect.DeepEqual(observed, runtime.Pod{}) {
		t.Errorf("Pod() = %+v, %v, want nothing", observed, err)
	}
}

func (s *suite) testSandboxAttempts(t *testing.T) {
	p := s.newPod(t)
	must(t, s.Runtime.StopSandbox(t.Context(), p.sandboxID))
	p.config.Metadata.Attempt = 1
	second := p.runSandbox()
	boxes := p.read().Sandboxes
	if len(boxes) != 2 || boxes[0].ID != second || boxes[0].Attempt != 1 || boxes[1].Attempt != 0 {
		t.Errorf("sandboxes are %+v, want the newest first", boxes)
	}
}

func (s *suite) testHostNetwork(t *testing.T) {
	p := s.newPod(t, func(c *cri.PodSandboxConfig) {
		c.Linux.SecurityContext.NamespaceOptions.Network = cri.NamespaceMode_NODE
	})
	if box := p.read().Sandboxes[0]; !box.HostNetwork || len(box.IPs) != 0 {
		t.Errorf("sandbox is %+v, want host network and no address", box)
	}
}

func (s *suite) testSandboxEndsContainers(t *testing.T) {
	p := s.newPod(t)
	id := p.start("main", "stubborn")
	must(t, s.Runtime.StopSandbox(t.Context(), p.sandboxID))
	if c := p.container(id); c.State != runtime.Exited || c.ExitCode != 137 {
		t.Errorf("container is %+v, want killed with its sandbox", c)
	}
	must(t, s.Runtime.RemoveSandbox(t.Context(), p.sandboxID))
	if observed := p.read(); len(observed.Containers) != 0 {
		t.Errorf("Pod is %+v, want no container after its sandbox", observed)
	}
}

func (s *suite) testRepeats(t *testing.T) {
	p := s.newPod(t)
	id := p.start("main", "wait", "0")
	for range 2 {
		must(t, s.Runtime.StopContainer(t.Context(), id, 0))
	}
	for range 2 {
		must(t, s.Runtime.RemoveContainer(t.Context(), id))
	}
	must(t, s.Runtime.StopContainer(t.Context(), id, 0))
	for range 2 {
		must(t, s.Runtime.StopSandbox(t.Context(), p.sandboxID))
	}
	for range 2 {
		must(t, s.Runtime.RemoveSandbox(t.Context(), p.sandboxID))
	}
	must(t, s.Runtime.StopSandbox(t.Context(), p.sandboxID))
	must(t, s.Runtime.RemoveImage(t.Context(), "muster.test/never-was:1"))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
