package spec

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubectl/pkg/util/qos"
)

// The kernel's units for CPU, and the limits below which it refuses a value.
const (
	sharesPerCPU   = 1024
	minShares      = 2
	quotaPeriod    = 100_000 // microseconds
	minQuota       = 1_000   // microseconds
	guaranteedAdj  = -997
	bestEffortAdj  = 1000
	nodeCritical   = 2_000_001_000 // priority of system-node-critical and above
	highestDefault = 1000
)

// containerResources is what the kernel is told about a container's requests and
// limits, including how early it is killed when memory runs out.
func containerResources(in ContainerInput) *cri.LinuxContainerResources {
	own := in.Container.Resources
	limits := own.Limits
	if in.Pod.Spec.Resources != nil {
		limits = withPodLimits(limits, in.Pod.Spec.Resources.Limits)
	}
	resources := linuxResources(own.Requests, limits)
	resources.OomScoreAdj = OOMScoreAdjust(in.Pod, in.Container, in.Node.MemoryCapacity)
	resources.HugepageLimits = hugepages(limits)
	if in.Node.Cgroup2 {
		resources.Unified = map[string]string{"memory.oom.group": "1"}
	}
	return resources
}

// withPodLimits bounds a container without own limits by its Pod's.
func withPodLimits(own, pod v1.ResourceList) v1.ResourceList {
	merged := own.DeepCopy()
	if merged == nil {
		merged = v1.ResourceList{}
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if limit, ok := pod[name]; ok {
			if _, set := merged[name]; !set {
				merged[name] = limit
			}
		}
	}
	return merged
}

func linuxResources(requests, limits v1.ResourceList) *cri.LinuxContainerResources {
	cpu, asked := requests[v1.ResourceCPU]
	if !asked {
		cpu = limits[v1.ResourceCPU]
	}
	return &cri.LinuxContainerResources{
		CpuShares:          shares(cpu.MilliValue()),
		CpuPeriod:          quotaPeriod,
		CpuQuota:           quota(limits.Cpu().MilliValue()),
		MemoryLimitInBytes: limits.Memory().Value(),
	}
}

func shares(milliCPU int64) int64 {
	return max(minShares, milliCPU*sharesPerCPU/1000)
}

// quota is 0, which means none, without a limit.
func quota(milliCPU int64) int64 {
	if milliCPU == 0 {
		return 0
	}
	return max(minQuota, milliCPU*quotaPeriod/1000)
}

func hugepages(limits v1.ResourceList) []*cri.HugepageLimit {
	var found []*cri.HugepageLimit
	for name, quantity := range limits {
		size, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
		if !ok {
			continue
		}
		bytes, err := resource.ParseQuantity(size)
		if err != nil {
			continue // the API server refuses such a name
		}
		found = append(found, &cri.HugepageLimit{PageSize: pageSize(bytes.Value()), Limit: uint64(quantity.Value())})
	}
	sortBy(found, func(limit *cri.HugepageLimit) string { return limit.PageSize })
	return found
}

// pageSize spells a page size as the kernel's hugetlb files do: 2MB, 1GB.
func pageSize(bytes int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	unit := 0
	for bytes >= 1024 && bytes%1024 == 0 && unit < len(units)-1 {
		bytes /= 1024
		unit++
	}
	return resource.NewQuantity(bytes, resource.DecimalSI).String() + units[unit]
}

// OOMScoreAdjust is the container's oom_score_adj: -997 for Guaranteed and node
// critical Pods, 1000 for BestEffort, and between them the less the more memory
// is requested. capacity is the machine's memory in bytes.
func OOMScoreAdjust(pod *v1.Pod, container *v1.Container, capacity int64) int64 {
	if pod.Spec.Priority != nil && *pod.Spec.Priority >= nodeCritical {
		return guaranteedAdj
	}
	switch qos.ComputePodQOS(pod) {
	case v1.PodQOSGuaranteed:
		return guaranteedAdj
	case v1.PodQOSBestEffort:
		return bestEffortAdj
	}
	if capacity <= 0 {
		return highestDefault - 1
	}
	request := container.Resources.Requests.Memory().Value()
	if isSidecar(container) {
		request = max(request, leastAppRequest(pod))
	}
	request += podShare(pod)
	adjust := highestDefault - highestDefault*request/capacity
	return min(max(adjust, highestDefault+guaranteedAdj), bestEffortAdj-1)
}

func isSidecar(container *v1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// leastAppRequest is the smallest memory request of the app containers: a sidecar
// must not be killed before them.
func leastAppRequest(pod *v1.Pod) int64 {
	least := int64(-1)
	for i := range pod.Spec.Containers {
		request := pod.Spec.Containers[i].Resources.Requests.Memory().Value()
		if least < 0 || request < least {
			least = request
		}
	}
	return max(least, 0)
}

// podShare is each container's part of the memory that the Pod requests as a whole
// beyond its containers' own requests.
func podShare(pod *v1.Pod) int64 {
	if !helper.IsPodLevelRequestsSet(pod) || len(pod.Spec.Containers) == 0 {
		return 0
	}
	whole := helper.PodRequests(pod, helper.PodResourcesOptions{})
	parts := helper.AggregateContainerRequests(pod, helper.PodResourcesOptions{})
	count := int64(len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		if isSidecar(&pod.Spec.InitContainers[i]) {
			count++
		}
	}
	return max(0, whole.Memory().Value()-parts.Memory().Value()) / count
}

// sandboxResources are the Pod's whole requests and limits, and its overhead, for
// runtimes that size a virtual machine by them.
func sandboxResources(pod *v1.Pod) (all, overhead *cri.LinuxContainerResources) {
	options := helper.PodResourcesOptions{ExcludeOverhead: true}
	all = linuxResources(helper.PodRequests(pod, options), helper.PodLimits(pod, options))
	return all, linuxResources(pod.Spec.Overhead, pod.Spec.Overhead)
}
