package runtimetest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"muster.dev/muster/internal/runtime"
)

// Subject is one runtime to test. Its ProgImage must be there, UserImage and
// NamedImage too, and containers of ProgImage must do what their arguments say.
type Subject struct {
	Runtime runtime.Runtime
	// Reconnect makes another client of the same runtime.
	Reconnect func(testing.TB) runtime.Runtime
	// CgroupParent is where Pods' cgroups go, if there are any.
	CgroupParent string
}

// Suite tests everything the seam promises. factory makes a runtime; the suite
// uses one for all its tests, each with Pods of its own.
func Suite(t *testing.T, factory func(testing.TB) Subject) {
	s := &suite{Subject: factory(t)}
	tests := []struct {
		name string
		run  func(*suite, *testing.T)
	}{
		{"says what it is", (*suite).testInfo},
		{"runs, stops and removes a sandbox", (*suite).testSandboxLife},
		{"knows nothing of a Pod it does not hold", (*suite).testUnknownPod},
		{"keeps attempts of a sandbox apart", (*suite).testSandboxAttempts},
		{"shows host network", (*suite).testHostNetwork},
		{"creates, starts and ends a container", (*suite).testContainerLife},
		{"reports exit codes and reasons", (*suite).testExitCodes},
		{"keeps attempts of a container apart", (*suite).testContainerAttempts},
		{"writes a container's log", (*suite).testLog},
		{"reopens a container's log", (*suite).testReopenLog},
		{"refuses what cannot be started", (*suite).testStartRefused},
		{"stops within the grace period", (*suite).testStopGraceful},
		{"kills after the grace period", (*suite).testStopKill},
		{"kills at once without grace", (*suite).testStopNow},
		{"stops and removes again and again", (*suite).testRepeats},
		{"ends containers with their sandbox", (*suite).testSandboxEndsContainers},
		{"announces an exit that can be read at once", (*suite).testExitEvent},
		{"announces a removal by another", (*suite).testRemovalEvent},
		{"announces everything to each listener", (*suite).testEveryListener},
		{"never waits for a listener", (*suite).testSlowListener},
		{"closes the channel of events", (*suite).testEventsClose},
		{"runs commands", (*suite).testExecSync},
		{"ends commands that take too long", (*suite).testExecTimeout},
		{"finds images", (*suite).testImages},
		{"makes containers from an image's ID", (*suite).testImageByID},
		{"says why a pull failed", (*suite).testPullFailures},
		{"measures what containers use", (*suite).testStats},
		{"finds everything again with a new client", (*suite).testReconnect},
		{"honours the end of a context", (*suite).testContext},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(s, t) })
	}
}

type suite struct{ Subject }

// pod is one Pod of a test.
type pod struct {
	*suite
	t         *testing.T
	config    *cri.PodSandboxConfig
	uid       types.UID
	sandboxID string
}

// newPod runs a sandbox, which is removed when the test ends.
func (s *suite) newPod(t *testing.T, change ...func(*cri.PodSandboxConfig)) *pod {
	t.Helper()
	uid := uuid.NewUUID()
	p := &pod{suite: s, t: t, uid: uid, config: &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: "pod", Namespace: "test", Uid: string(uid)},
		LogDirectory: t.TempDir(),
		Labels: map[string]string{
			kubelettypes.KubernetesPodNameLabel:      "pod",
			kubelettypes.KubernetesPodNamespaceLabel: "test",
			kubelettypes.KubernetesPodUIDLabel:       string(uid),
		},
		Annotations: map[string]string{"muster.test/note": "kept"},
		Linux:       &cri.LinuxPodSandboxConfig{CgroupParent: s.CgroupParent, SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: &cri.NamespaceOption{Pid: cri.NamespaceMode_CONTAINER}}},
	}}
	for _, f := range change {
		f(p.config)
	}
	p.sandboxID = p.runSandbox()
	return p
}

func (p *pod) runSandbox() string {
	p.t.Helper()
	r := p.Runtime
	id, err := r.RunSandbox(p.t.Context(), p.config, "")
	if err != nil {
		p.t.Fatalf("running sandbox: %v", err)
	}
	p.t.Cleanup(func() {
		ctx := context.Background() // the test's own has ended
		if err := r.StopSandbox(ctx, id); err != nil {
			p.t.Errorf("stopping sandbox: %v", err)
		}
		if err := r.RemoveSandbox(ctx, id); err != nil {
			p.t.Errorf("removing sandbox: %v", err)
		}
	})
	return id
}

// create makes a container that does what args say.
func (p *pod) create(name string, attempt uint32, args ...string) string {
	p.t.Helper()
	id, err := p.Runtime.CreateContainer(p.t.Context(), p.sandboxID, p.containerConfig(name, attempt, args...), p.config)
	if err != nil {
		p.t.Fatalf("creating container: %v", err)
	}
	return id
}

func (p *pod) containerConfig(name string, attempt uint32, args ...string) *cri.ContainerConfig {
	return &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: name, Attempt: attempt},
		Image:    &cri.ImageSpec{Image: ProgImage, UserSpecifiedImage: ProgImage},
		Args:     args,
		LogPath:  name + ".log",
		Labels: map[string]string{
			kubelettypes.KubernetesPodNameLabel:       "pod",
			kubelettypes.KubernetesPodNamespaceLabel:  "test",
			kubelettypes.KubernetesPodUIDLabel:        string(p.uid),
			kubelettypes.KubernetesContainerNameLabel: name,
		},
		Annotations: map[string]string{"muster.test/attempt": "kept"},
		Linux:       &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: p.config.Linux.SecurityContext.NamespaceOptions}},
	}
}

// start makes and starts a container, and sees to it that one that is to wait for
// a signal does so.
func (p *pod) start(name string, args ...string) string {
	p.t.Helper()
	id := p.create(name, 0, args...)
	if err := p.Runtime.StartContainer(p.t.Context(), id); err != nil {
		p.t.Fatalf("starting container: %v", err)
	}
	if slices.Contains(args, "wait") || slices.Contains(args, "stubborn") {
		p.untilWaiting(id)
	}
	return id
}

func (p *pod) untilWaiting(id string) {
	p.t.Helper()
	path := p.container(id).LogPath
	Await(p.t, "the container to wait", func() (bool, string) {
		text, err := os.ReadFile(path)
		return strings.HasSuffix(string(text), " stdout F waiting\n"), fmt.Sprintf("%q, %v", text, err)
	})
}

// read is the Pod as the runtime has it now.
func (p *pod) read() runtime.Pod {
	p.t.Helper()
	observed, err := p.Runtime.Pod(p.t.Context(), p.uid)
	if err != nil {
		p.t.Fatalf("reading the Pod: %v", err)
	}
	return observed
}

func (p *pod) container(id string) runtime.Container {
	p.t.Helper()
	observed := p.read()
	for _, c := range observed.Containers {
		if c.ID == id {
			return c
		}
	}
	p.t.Fatalf("container %s is not in %+v", id, observed)
	return runtime.Container{}
}

// events follows what happens to this Pod until the test ends.
func (p *pod) events() <-chan runtime.Event {
	p.t.Helper()
	events := p.Runtime.Events(p.t.Context())
	for next(p.t, events).PodUID != "" {
		continue // it stands since before it says that anything may have changed
	}
	return events
}

// untilExited waits, by events alone, until a container has ended.
func (p *pod) untilExited(events <-chan runtime.Event, id string) runtime.Container {
	p.t.Helper()
	for {
		if c := p.container(id); c.State == runtime.Exited {
			return c
		}
		for next(p.t, events).PodUID != p.uid {
			continue
		}
	}
}
