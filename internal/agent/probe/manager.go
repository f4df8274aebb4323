package probe

import (
	"context"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/internal/podplan"
	"muster.dev/muster/internal/runtime"
)

// Options are what a Manager needs.
type Options struct {
	// Runtime runs exec probes.
	Runtime runtime.Runtime
	// Changed is told that a Pod's States are not what they were. It must not block
	// for long and may call States, but not Sync, Remove or Close.
	Changed func(types.UID)
	// Unhealthy is told of every failed probe, in the words of Kubernetes' event of
	// that reason; nil to do without.
	Unhealthy func(pod *v1.Pod, container, message string)
}

// Target is a running container to probe.
type Target struct {
	ContainerID string
	// PodIP is where network probes go: the Pod's address, the node's for a
	// host-network Pod.
	PodIP string
	// StartedAt is when the container started; delays count from it.
	StartedAt time.Time
	// Started and Ready are what is known of this very container from before, such
	// as from its status when the agent starts anew; they hold until a probe says
	// otherwise.
	Started, Ready bool
}

// Manager runs the probes of all Pods on the node.
type Manager struct {
	options Options
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	pods map[types.UID]map[string]*watch
}

// New makes a Manager that runs until Close.
func New(options Options) *Manager {
	ctx, stop := context.WithCancel(context.Background())
	return &Manager{options: options, ctx: ctx, stop: stop, pods: map[types.UID]map[string]*watch{}}
}

// Sync makes the probes those of the containers that run now, by container name:
// new ones begin, and those of containers not named, or with another ID, end.
func (m *Manager) Sync(pod *v1.Pod, running map[string]Target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	watches := m.pods[pod.UID]
	if watches == nil {
		watches = map[string]*watch{}
		m.pods[pod.UID] = watches
	}
	maps.DeleteFunc(watches, func(name string, w *watch) bool {
		gone := running[name].ContainerID != w.target.ContainerID
		if gone {
			w.cancel()
		}
		return gone
	})
	for _, container := range probed(pod) {
		target, runs := running[container.Name]
		if runs && watches[container.Name] == nil && m.ctx.Err() == nil {
			watches[container.Name] = m.begin(pod, container, target)
		}
	}
}

// probed are the containers that may have probes: app containers and sidecars.
func probed(pod *v1.Pod) []*v1.Container {
	var list []*v1.Container
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		if container.RestartPolicy != nil && *container.RestartPolicy == v1.ContainerRestartPolicyAlways {
			list = append(list, container)
		}
	}
	for i := range pod.Spec.Containers {
		list = append(list, &pod.Spec.Containers[i])
	}
	return list
}

// States are the verdicts on the Pod's running containers, by name.
func (m *Manager) States(uid types.UID) map[string]podplan.ProbeState {
	m.mu.Lock()
	defer m.mu.Unlock()
	states := make(map[string]podplan.ProbeState, len(m.pods[uid]))
	for name, w := range m.pods[uid] {
		states[name] = w.state
	}
	return states
}

// Remove ends all probes of a Pod.
func (m *Manager) Remove(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.pods[uid] {
		w.cancel()
	}
	delete(m.pods, uid)
}

// Close ends all probes and returns when the last has ended.
func (m *Manager) Close() {
	m.mu.Lock()
	m.stop()
	m.mu.Unlock()
	m.running.Wait()
}
