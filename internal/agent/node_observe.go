package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/runtime"
)

// Below these the node is under pressure: the usual defaults of the field.
const (
	memoryFloor = 100 << 20 // bytes available
	diskFloor   = 0.10      // share of bytes available
	inodeFloor  = 0.05      // share of inodes free
	pidFloor    = 0.05      // share of process IDs free
)

const (
	imagesShown     = 50 // largest first
	imageNamesShown = 5
	observeTimeout  = 5 * time.Second
)

// nodeFacts is what one look at the machine and its runtime found.
type nodeFacts struct {
	capacity, allocatable v1.ResourceList
	info                  v1.NodeSystemInfo
	addresses             []v1.NodeAddress
	port                  int32
	images                []v1.ContainerImage
	handlers              []v1.NodeRuntimeHandler
	strictGroups          bool
	pressure              []v1.NodeCondition
	// troubles are why the node cannot take Pods; none: it is Ready.
	troubles []error
}

func (n *node) observe(ctx context.Context) nodeFacts {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	f := nodeFacts{info: n.machine.info(), addresses: n.addresses(), port: n.port}
	f.info.KubeletVersion = n.version
	if capacity, err := n.machine.capacity(n.maxPods); f.found(err) {
		f.capacity, f.allocatable = capacity, allocatable(capacity, n.reserved)
	}
	f.observePressure(n.machine)
	f.observeRuntime(ctx, n.runtime)
	return f
}

// found keeps a failed look as a trouble; what it was about stays as it was.
func (f *nodeFacts) found(err error) bool {
	if err != nil {
		f.trouble(err)
	}
	return err == nil
}

func (f *nodeFacts) trouble(err error) { f.troubles = append(f.troubles, err) }

func (f *nodeFacts) observeRuntime(ctx context.Context, rt runtime.Runtime) {
	info, err := rt.Info(ctx)
	if err != nil {
		f.trouble(fmt.Errorf("container runtime is down: %w", err))
		return
	}
	f.info.ContainerRuntimeVersion = info.Name + "://" + strings.TrimPrefix(info.Version, "v")
	status, err := rt.Status(ctx)
	if err != nil {
		f.trouble(fmt.Errorf("container runtime is down: %w", err))
		return
	}
	if !status.RuntimeReady {
		f.trouble(fmt.Errorf("container runtime not ready: RuntimeReady=false %s", status.RuntimeMessage))
	}
	if !status.NetworkReady {
		f.trouble(fmt.Errorf("container runtime network not ready: NetworkReady=false %s", status.NetworkMessage))
	}
	f.strictGroups = status.StrictGroups
	slices.Sort(status.Handlers)
	for _, name := range status.Handlers {
		f.handlers = append(f.handlers, v1.NodeRuntimeHandler{Name: name})
	}
	images, err := rt.Images(ctx)
	if err != nil {
		f.trouble(fmt.Errorf("listing images: %w", err))
		return
	}
	f.images = shownImages(images)
}

func (f *nodeFacts) observePressure(m machine) {
	if memory, err := m.meminfo("MemAvailable"); f.found(err) {
		f.pressure = append(f.pressure, pressure(v1.NodeMemoryPressure, memory < memoryFloor,
			"KubeletHasSufficientMemory", "kubelet has sufficient memory available",
			"KubeletHasInsufficientMemory", "kubelet has insufficient memory available"))
	}
	if disk, err := m.disk(); f.found(err) {
		low := float64(disk.available) < diskFloor*float64(disk.total) || disk.inodesFree < inodeFloor
		f.pressure = append(f.pressure, pressure(v1.NodeDiskPressure, low,
			"KubeletHasNoDiskPressure", "kubelet has no disk pressure",
			"KubeletHasDiskPressure", "kubelet has disk pressure"))
	}
	if pids, err := m.pidsFree(); f.found(err) {
		f.pressure = append(f.pressure, pressure(v1.NodePIDPressure, pids < pidFloor,
			"KubeletHasSufficientPID", "kubelet has sufficient PID available",
			"KubeletHasInsufficientPID", "kubelet has insufficient PID available"))
	}
}

func pressure(kind v1.NodeConditionType, low bool, fine, fineText, bad, badText string) v1.NodeCondition {
	if low {
		return v1.NodeCondition{Type: kind, Status: v1.ConditionTrue, Reason: bad, Message: badText}
	}
	return v1.NodeCondition{Type: kind, Status: v1.ConditionFalse, Reason: fine, Message: fineText}
}

func (f *nodeFacts) ready() v1.NodeCondition {
	if len(f.troubles) > 0 {
		return v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionFalse,
			Reason: "KubeletNotReady", Message: errors.Join(f.troubles...).Error()}
	}
	return v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue,
		Reason: "KubeletReady", Message: "kubelet is posting ready status"}
}

// over is the Node's new status: what was observed, over what others wrote.
func (f nodeFacts) over(old v1.NodeStatus, now metav1.Time) v1.NodeStatus {
	status := *old.DeepCopy()
	if f.capacity != nil {
		status.Capacity = withForeign(f.capacity, old.Capacity)
		status.Allocatable = withForeign(f.allocatable, old.Allocatable)
	}
	status.Addresses = f.addresses
	status.DaemonEndpoints.KubeletEndpoint.Port = f.port
	status.NodeInfo = f.info
	if f.info.ContainerRuntimeVersion == "" {
		status.NodeInfo.ContainerRuntimeVersion = old.NodeInfo.ContainerRuntimeVersion
	}
	if len(f.troubles) == 0 {
		status.Images, status.RuntimeHandlers = f.images, f.handlers
		status.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: &f.strictGroups}
	}
	for _, c := range append(f.pressure, f.ready()) {
		setCondition(&status, c, now)
	}
	return status
}

// withForeign adds the extended resources that someone else put on the Node.
func withForeign(own, old v1.ResourceList) v1.ResourceList {
	all := own.DeepCopy()
	for name, amount := range old {
		if _, ours := all[name]; !ours && strings.Contains(string(name), "/") {
			all[name] = amount
		}
	}
	return all
}

func setCondition(status *v1.NodeStatus, c v1.NodeCondition, now metav1.Time) {
	c.LastHeartbeatTime, c.LastTransitionTime = now, now
	old := condition(*status, c.Type)
	if old == nil {
		status.Conditions = append(status.Conditions, c)
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	*old = c
}

func (n *node) addresses() []v1.NodeAddress {
	var all []v1.NodeAddress
	for _, ip := range n.ips {
		all = append(all, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip.String()})
	}
	return append(all, v1.NodeAddress{Type: v1.NodeHostName, Address: n.name})
}

func shownImages(images []runtime.Image) []v1.ContainerImage {
	images = slices.Clone(images)
	slices.SortFunc(images, func(a, b runtime.Image) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.ID, b.ID))
	})
	shown := make([]v1.ContainerImage, 0, imagesShown)
	for _, image := range images[:min(len(images), imagesShown)] {
		names := slices.Concat(image.RepoDigests, image.RepoTags)
		shown = append(shown, v1.ContainerImage{Names: names[:min(len(names), imageNamesShown)], SizeBytes: image.Bytes})
	}
	return shown
}
