package spec

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// Sandbox is what the runtime is told to make a Pod's sandbox. It fails for a host
// name that the kernel would not take, and for fields that muster will not act on:
// a Pod that asked for more isolation than it would get must not run.
func Sandbox(in PodInput) (*cri.PodSandboxConfig, error) {
	pod := in.Pod
	if err := unserved(pod); err != nil {
		return nil, err
	}
	hostname, err := sandboxHostname(pod, in.Node)
	if err != nil {
		return nil, err
	}
	all, overhead := sandboxResources(pod)
	config := &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: in.Attempt,
		},
		Hostname:     hostname,
		LogDirectory: LogDirectory(in.Node.LogRoot, pod),
		DnsConfig:    dnsConfig(pod, in.Node),
		PortMappings: portMappings(pod),
		Labels:       sandboxLabels(pod),
		Annotations:  sandboxAnnotations(pod),
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent:    CgroupParent(pod, in.Node),
			SecurityContext: sandboxSecurity(pod),
			Sysctls:         sysctls(pod),
			Resources:       all,
			Overhead:        overhead,
		},
	}
	return config, nil
}

// unserved names a field that the Pod relies on and muster does not act on.
func unserved(pod *v1.Pod) error {
	if !ptr.Deref(pod.Spec.HostUsers, true) {
		return errors.New("muster does not act on spec.hostUsers: false; remove the field to let the Pod run in the node's user namespace")
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		return errors.New("muster does not act on spec.resourceClaims; remove them, or ask for the device as an extended resource")
	}
	return nil
}

// sandboxHostname is the name that the kernel is told; a host-network Pod shares
// the node's and must not name one.
func sandboxHostname(pod *v1.Pod, node Node) (string, error) {
	if pod.Spec.HostNetwork {
		return "", nil
	}
	name, domain := Hostname(pod, node)
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("pod Hostname %q is not a valid DNS label: %s", name, problems[0])
	}
	if ptr.Deref(pod.Spec.SetHostnameAsFQDN, false) && domain != "" {
		name += "." + domain
	}
	if len(name) > maxKernelHostname {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (%d characters is the max, %d characters requested)", name, maxKernelHostname, len(name))
	}
	return name, nil
}

// portMappings are the Pod's host ports. A host-network Pod needs none: its ports
// are the node's.
func portMappings(pod *v1.Pod) []*cri.PortMapping {
	if pod.Spec.HostNetwork {
		return nil
	}
	var list []*cri.PortMapping
	add := func(containers []v1.Container) {
		for i := range containers {
			for _, port := range containers[i].Ports {
				if port.HostPort != 0 {
					list = append(list, portMapping(port))
				}
			}
		}
	}
	add(sidecars(pod))
	add(pod.Spec.Containers)
	return list
}

func portMapping(port v1.ContainerPort) *cri.PortMapping {
	return &cri.PortMapping{
		Protocol:      cri.Protocol(cri.Protocol_value[string(port.Protocol)]),
		ContainerPort: port.ContainerPort,
		HostPort:      port.HostPort,
		HostIp:        port.HostIP,
	}
}

func sidecars(pod *v1.Pod) []v1.Container {
	var list []v1.Container
	for _, container := range pod.Spec.InitContainers {
		if isSidecar(&container) {
			list = append(list, container)
		}
	}
	return list
}

func sysctls(pod *v1.Pod) map[string]string {
	if pod.Spec.SecurityContext == nil || len(pod.Spec.SecurityContext.Sysctls) == 0 {
		return nil
	}
	settings := map[string]string{}
	for _, sysctl := range pod.Spec.SecurityContext.Sysctls {
		settings[sysctl.Name] = sysctl.Value
	}
	return settings
}
