package volume

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/mount-utils"

	"muster.dev/muster/internal/agent/downward"
	"muster.dev/muster/internal/reason"
)

// Options are what a Manager needs.
type Options struct {
	// RootDir is the agent's folder; volumes stand in RootDir/pods.
	RootDir string
	// Client reads secrets and config maps and asks for tokens, as the node.
	Client kubernetes.Interface
	// NodeName is this node's name.
	NodeName string
	// Allocatable is what the node offers to Pods; may be nil.
	Allocatable func() v1.ResourceList
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Mount is one prepared volume on the node's disk.
type Mount struct {
	// HostPath is what to mount into containers.
	HostPath string
	// ReadOnly says that containers must not write to it whatever their mount says.
	ReadOnly bool
}

// NotReady says that a Pod's volumes are not in place yet. Trying again is right;
// the reason says what it waits for.
type NotReady struct {
	Reason reason.Reason
	Cause  error
}

// Error is the reason's text.
func (e *NotReady) Error() string { return e.Reason.Text() }

// Unwrap gives the cause, nil where there is none beyond the reason.
func (e *NotReady) Unwrap() error { return e.Cause }

// Manager owns the volumes of every Pod on this node. Calls for different Pods may
// run at the same time; calls for one Pod must not.
type Manager struct {
	options Options
	root    string
	mounter mount.Interface

	mu     sync.Mutex
	tokens map[tokenKey]token
}

// New makes a Manager. It touches nothing yet.
func New(options Options) *Manager {
	if options.Now == nil {
		options.Now = time.Now
	}
	root, err := filepath.Abs(options.RootDir)
	if err != nil {
		root = options.RootDir
	}
	return &Manager{options: options, root: root, mounter: mount.New(""), tokens: map[tokenKey]token{}}
}

// Prepare puts all volumes of the Pod in place and returns them by name. It may be
// called as often as one likes: later calls bring config maps, secrets, tokens and
// downward API files up to date. The error is a *NotReady where waiting may help;
// a Pod that already runs keeps its volumes then.
func (m *Manager) Prepare(ctx context.Context, pod *v1.Pod) (map[string]Mount, error) {
	mounts := make(map[string]Mount, len(pod.Spec.Volumes))
	var failures []error
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		made, err := m.prepare(ctx, pod, volume)
		if err != nil {
			failures = append(failures, waiting(volume.Name, err))
			continue
		}
		mounts[volume.Name] = made
	}
	if len(failures) > 0 {
		return nil, failures[0]
	}
	return mounts, ctx.Err()
}

func (m *Manager) prepare(ctx context.Context, pod *v1.Pod, volume *v1.Volume) (Mount, error) {
	source := volume.VolumeSource
	switch {
	case source.EmptyDir != nil:
		return m.emptyDir(pod, volume)
	case source.HostPath != nil:
		return hostPath(source.HostPath)
	case source.ConfigMap != nil, source.Secret != nil, source.Projected != nil, source.DownwardAPI != nil:
		return m.projectedFiles(ctx, pod, volume)
	}
	return Mount{}, unsupported(volume)
}

// waiting turns a failure into the reason that the Pod's status and events show.
func waiting(volume string, err error) error {
	var already *NotReady
	if errors.As(err, &already) {
		return already
	}
	return &NotReady{Reason: failure(volume, err), Cause: err}
}

// projectedFiles prepares the kinds whose files come from the API.
func (m *Manager) projectedFiles(ctx context.Context, pod *v1.Pod, volume *v1.Volume) (Mount, error) {
	payload, err := m.payload(ctx, pod, volume)
	if err != nil {
		return Mount{}, err
	}
	dir := m.dir(pod.UID, kind(volume), volume.Name)
	if err := m.makeFolder(dir); err != nil {
		return Mount{}, err
	}
	if volume.ConfigMap == nil {
		if err := m.keepInMemory(dir); err != nil {
			return Mount{}, err
		}
	}
	group := fsGroup(pod)
	if err := own(dir, dirMode, nil, group); err != nil {
		return Mount{}, err
	}
	if _, err := write(dir, payload, group, m.options.Now()); err != nil {
		return Mount{}, fmt.Errorf("writing the volume's files: %w", err)
	}
	return Mount{HostPath: dir, ReadOnly: true}, nil
}

func (m *Manager) podDir(uid types.UID) string {
	return filepath.Join(m.root, "pods", string(uid))
}

func (m *Manager) dir(uid types.UID, kind, name string) string {
	return filepath.Join(m.podDir(uid), "volumes", "kubernetes.io~"+kind, name)
}

// kind is the kubelet's name of a volume's kind on disk.
func kind(volume *v1.Volume) string {
	switch {
	case volume.EmptyDir != nil:
		return "empty-dir"
	case volume.ConfigMap != nil:
		return "configmap"
	case volume.Secret != nil:
		return "secret"
	case volume.DownwardAPI != nil:
		return "downward-api"
	}
	return "projected"
}

func (m *Manager) facts() downward.Facts {
	if m.options.Allocatable == nil {
		return downward.Facts{}
	}
	return downward.Facts{Allocatable: m.options.Allocatable()}
}
