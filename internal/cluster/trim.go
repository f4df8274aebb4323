package cluster

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Trim takes out of an object on its way into the shared caches what no control
// loop reads: managed fields of everything, and of Pods' containers what only
// their node needs. What is trimmed stands in the spec, which a write of the
// status leaves as it is, so a loop may still write a cached Pod's status whole.
func Trim(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	if pod, ok := object.(*v1.Pod); ok {
		trimContainers(pod.Spec.InitContainers)
		trimContainers(pod.Spec.Containers)
	}
	return object, nil
}

func trimContainers(containers []v1.Container) {
	for i := range containers {
		c := &containers[i]
		c.Command, c.Args, c.Env, c.EnvFrom = nil, nil, nil, nil
		c.VolumeMounts, c.VolumeDevices = nil, nil
		c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil
		c.Lifecycle, c.SecurityContext = nil, nil
	}
}
