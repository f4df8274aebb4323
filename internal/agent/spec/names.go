package spec

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubectl/pkg/util/qos"
	"k8s.io/kubelet/pkg/types"
)

// Annotations of a container in the runtime, by the kubelet's names. The agent
// reads the restart count and the termination message's place back from them.
const (
	HashAnnotation                     = "io.kubernetes.container.hash"
	RestartCountAnnotation             = "io.kubernetes.container.restartCount"
	TerminationMessagePathAnnotation   = "io.kubernetes.container.terminationMessagePath"
	TerminationMessagePolicyAnnotation = "io.kubernetes.container.terminationMessagePolicy"
	PreStopAnnotation                  = "io.kubernetes.container.preStopHandler"
	PortsAnnotation                    = "io.kubernetes.container.ports"
	PodGraceAnnotation                 = "io.kubernetes.pod.terminationGracePeriod"
	PodDeletionGraceAnnotation         = "io.kubernetes.pod.deletionGracePeriod"
	// TerminationFileAnnotation is the path on the host of the termination message.
	TerminationFileAnnotation = "muster.dev/termination-file"
	configSourceAnnotation    = "kubernetes.io/config.source"
	configSeenAnnotation      = "kubernetes.io/config.seen"
)

// PodDir is the folder of everything the agent keeps for a Pod.
func PodDir(root string, pod *v1.Pod) string {
	return filepath.Join(root, "pods", string(pod.UID))
}

// LogDirectory is the folder of the Pod's logs.
func LogDirectory(logRoot string, pod *v1.Pod) string {
	return filepath.Join(logRoot, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

// LogPath is where a container's log stands, relative to the Pod's LogDirectory.
func LogPath(container string, attempt uint32) string {
	return filepath.Join(container, fmt.Sprintf("%d.log", attempt))
}

// LogLink is the name of the link under /var/log/containers by which shippers find
// a container's log.
func LogLink(pod *v1.Pod, container, id string) string {
	return pod.Name + "_" + pod.Namespace + "_" + container + "-" + id + ".log"
}

// CgroupParent is the Pod's cgroup: below the root, one level for the class of
// service (none for Guaranteed), one for the Pod.
func CgroupParent(pod *v1.Pod, node Node) string {
	class := qos.ComputePodQOS(pod)
	if node.SystemdCgroups {
		return systemdSlice(pod, node, class)
	}
	parts := []string{"/", node.CgroupRoot}
	if class != v1.PodQOSGuaranteed {
		parts = append(parts, strings.ToLower(string(class)))
	}
	return path.Join(append(parts, "pod"+string(pod.UID))...)
}

// systemdSlice says the same in systemd's spelling, in which a dash is a level.
func systemdSlice(pod *v1.Pod, node Node, class v1.PodQOSClass) string {
	escape := func(name string) string { return strings.ReplaceAll(name, "-", "_") }
	var parts []string
	for _, part := range strings.Split(strings.Trim(node.CgroupRoot, "/"), "/") {
		if part != "" {
			parts = append(parts, escape(strings.TrimSuffix(part, ".slice")))
		}
	}
	if class != v1.PodQOSGuaranteed {
		parts = append(parts, strings.ToLower(string(class)))
	}
	return strings.Join(append(parts, "pod"+escape(string(pod.UID))), "-") + ".slice"
}

func podLabels(pod *v1.Pod) map[string]string {
	return map[string]string{
		types.KubernetesPodNameLabel:      pod.Name,
		types.KubernetesPodNamespaceLabel: pod.Namespace,
		types.KubernetesPodUIDLabel:       string(pod.UID),
	}
}

func sandboxLabels(pod *v1.Pod) map[string]string {
	labels := podLabels(pod)
	for key, value := range pod.Labels {
		if _, own := labels[key]; !own {
			labels[key] = value
		}
	}
	return labels
}

func sandboxAnnotations(pod *v1.Pod) map[string]string {
	annotations := map[string]string{}
	for key, value := range pod.Annotations {
		annotations[key] = value
	}
	annotations[configSourceAnnotation] = "api"
	annotations[configSeenAnnotation] = pod.CreationTimestamp.UTC().Format("2006-01-02T15:04:05.000000000Z07:00")
	return annotations
}

func containerLabels(in ContainerInput) map[string]string {
	labels := podLabels(in.Pod)
	labels[types.KubernetesContainerNameLabel] = in.Container.Name
	return labels
}

func containerAnnotations(in ContainerInput) map[string]string {
	container := in.Container
	annotations := map[string]string{
		HashAnnotation:                     Hash(container),
		RestartCountAnnotation:             strconv.FormatUint(uint64(in.Attempt), 10),
		TerminationMessagePathAnnotation:   container.TerminationMessagePath,
		TerminationMessagePolicyAnnotation: string(container.TerminationMessagePolicy),
	}
	if in.TerminationFile != "" {
		annotations[TerminationFileAnnotation] = in.TerminationFile
	}
	if grace := in.Pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		annotations[PodGraceAnnotation] = strconv.FormatInt(*grace, 10)
	}
	if grace := in.Pod.DeletionGracePeriodSeconds; grace != nil {
		annotations[PodDeletionGraceAnnotation] = strconv.FormatInt(*grace, 10)
	}
	if container.Lifecycle != nil && container.Lifecycle.PreStop != nil {
		annotations[PreStopAnnotation] = toJSON(container.Lifecycle.PreStop)
	}
	if len(container.Ports) > 0 {
		annotations[PortsAnnotation] = toJSON(container.Ports)
	}
	return annotations
}

// Hash identifies what of a container, once changed, asks for a new one: its name
// and image. The rest of a running Pod's containers cannot change.
func Hash(container *v1.Container) string {
	hash := fnv.New32a()
	hash.Write([]byte(toJSON(map[string]string{"name": container.Name, "image": container.Image})))
	return strconv.FormatUint(uint64(hash.Sum32()), 16)
}

// toJSON encodes API types, which always can be.
func toJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic("spec: API type does not encode as JSON: " + err.Error())
	}
	return string(text)
}
