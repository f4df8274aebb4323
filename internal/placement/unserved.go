package placement

import (
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/reason"
)

// waits are the reasons in the Pod itself for which no node can take it: gates
// that somebody else must open, and fields that no node here acts on.
func waits(pod *v1.Pod) []reason.Reason {
	var reasons []reason.Reason
	if len(pod.Spec.SchedulingGates) > 0 {
		gates := make([]string, len(pod.Spec.SchedulingGates))
		for i, gate := range pod.Spec.SchedulingGates {
			gates[i] = gate.Name
		}
		reasons = append(reasons, reason.Reason{Code: reason.SchedulingGated, Object: keyOf(pod).String(), Detail: strings.Join(gates, ", ")})
	}
	for i := range pod.Spec.Volumes {
		reasons = append(reasons, unservedVolume(i, &pod.Spec.Volumes[i])...)
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		reasons = append(reasons, unserved("spec.resourceClaims", "ask for the device as an extended resource in resources.limits"))
	}
	return reasons
}

func unserved(field, remedy string) reason.Reason {
	return reason.Reason{Code: reason.UnservedField, Object: field, Detail: remedy}
}

// servedVolumes are the sources a node here can mount.
var servedVolumes = map[string]bool{
	"hostPath": true, "emptyDir": true, "configMap": true, "secret": true, "downwardAPI": true, "projected": true,
}

// servedProjections are the parts a projected volume may have.
var servedProjections = map[string]bool{
	"secret": true, "configMap": true, "downwardAPI": true, "serviceAccountToken": true,
}

const (
	volumeRemedy     = "use hostPath, emptyDir, configMap, secret, downwardAPI or projected"
	projectionRemedy = "project serviceAccountToken, secret, configMap or downwardAPI, or mount the files from a secret"
)

func unservedVolume(index int, volume *v1.Volume) []reason.Reason {
	var reasons []reason.Reason
	path := fmt.Sprintf("spec.volumes[%d]", index)
	for _, kind := range setFields(volume.VolumeSource) {
		if !servedVolumes[kind] {
			reasons = append(reasons, unserved(fmt.Sprintf("%s.%s (%s)", path, kind, volume.Name), volumeRemedy))
		}
	}
	if volume.Projected == nil {
		return reasons
	}
	for i, source := range volume.Projected.Sources {
		for _, kind := range setFields(source) {
			if !servedProjections[kind] {
				field := fmt.Sprintf("%s.projected.sources[%d].%s (%s)", path, i, kind, volume.Name)
				reasons = append(reasons, unserved(field, projectionRemedy))
			}
		}
	}
	return reasons
}

// setFields are the JSON names of a union's members that are set. Reading them
// off the type means that a kind the API gains later is unserved until it is
// listed here, not silently ignored.
func setFields(union any) []string {
	var names []string
	value := reflect.ValueOf(union)
	for i := range value.NumField() {
		if field := value.Field(i); field.Kind() == reflect.Pointer && !field.IsNil() {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}
