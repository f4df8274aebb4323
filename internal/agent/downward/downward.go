// Package downward answers the downward API: what a fieldRef or a
// resourceFieldRef of a Pod says, as text. Environment variables (spec) and
// files (volume) ask here, so that both say the same.
//
// It is pure: it reads the Pod and the node's facts it is given, and never looks
// anything up.
package downward

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubectl/pkg/util/fieldpath"
	"k8s.io/kubectl/pkg/util/resource"
)

// Facts are what a Pod's fields say that stand in no manifest, because only the
// node knows them when the question is asked.
type Facts struct {
	// HostIPs are the node's addresses, PodIPs the Pod's; the first is the primary.
	HostIPs, PodIPs []string
	// Allocatable is what the node offers: the limit of a container without one.
	Allocatable v1.ResourceList
}

// Field is the value of a fieldRef's path, such as metadata.labels['app'] or
// status.podIP. It fails for a path that Kubernetes does not offer.
func Field(pod *v1.Pod, path string, facts Facts) (string, error) {
	switch path {
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(facts.HostIPs), nil
	case "status.hostIPs":
		return strings.Join(facts.HostIPs, ","), nil
	case "status.podIP":
		return first(facts.PodIPs), nil
	case "status.podIPs":
		return strings.Join(facts.PodIPs, ","), nil
	}
	return fieldpath.ExtractFieldPathAsString(pod, path)
}

// Resource is the value of a resourceFieldRef, divided and rounded up as its
// divisor asks. container is the one that asks, which the reference may override.
func Resource(pod *v1.Pod, ref *v1.ResourceFieldSelector, container string, facts Facts) (string, error) {
	if ref.ContainerName != "" {
		container = ref.ContainerName
	}
	found := Container(pod, container)
	if found == nil {
		return "", fmt.Errorf("container %s not found", container)
	}
	return resource.ExtractContainerResourceValue(ref, withDefaultLimits(found, facts.Allocatable))
}

// Container finds a container of the Pod by name, init containers included; nil
// when there is none.
func Container(pod *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// withDefaultLimits gives a container without a limit the node's allocatable:
// nothing else bounds it.
func withDefaultLimits(container *v1.Container, allocatable v1.ResourceList) *v1.Container {
	bounded := container.DeepCopy()
	if bounded.Resources.Limits == nil {
		bounded.Resources.Limits = v1.ResourceList{}
	}
	for name, quantity := range allocatable {
		if _, set := bounded.Resources.Limits[name]; !set {
			bounded.Resources.Limits[name] = quantity
		}
	}
	return bounded
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
