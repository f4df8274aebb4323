package volume

import (
	"errors"
	"fmt"
	"io/fs"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"muster.dev/muster/internal/agent/downward"
)

// File is one file of a volume.
type File struct {
	Data []byte
	Mode fs.FileMode
	// Owner is the user that the file belongs to; nil leaves it to the agent's own.
	Owner *int64
}

// Payload is the whole content of a volume: files by path relative to it.
type Payload map[string]File

// ConfigMapPayload is a config map as files: every key, or those of items. A
// missing config map is nil, which only optional ones may be.
func ConfigMapPayload(object *v1.ConfigMap, items []v1.KeyToPath, mode *int32, optional *bool) (Payload, error) {
	data := map[string][]byte{}
	if object != nil {
		for key, text := range object.Data {
			data[key] = []byte(text)
		}
		for key, bytes := range object.BinaryData {
			data[key] = bytes
		}
	}
	return project(data, items, mode, optional, "configmap references non-existent config key: %s")
}

// SecretPayload is the same for a secret.
func SecretPayload(object *v1.Secret, items []v1.KeyToPath, mode *int32, optional *bool) (Payload, error) {
	var data map[string][]byte
	if object != nil {
		data = object.Data
	}
	return project(data, items, mode, optional, "references non-existent secret key: %s")
}

func project(data map[string][]byte, items []v1.KeyToPath, mode *int32, optional *bool, missing string) (Payload, error) {
	payload := Payload{}
	if len(items) == 0 {
		for key, bytes := range data {
			payload[key] = File{Data: bytes, Mode: fileMode(nil, mode)}
		}
		return payload, nil
	}
	for _, item := range items {
		bytes, found := data[item.Key]
		if !found && !ptr.Deref(optional, false) {
			return nil, fmt.Errorf(missing, item.Key)
		}
		if found {
			payload[item.Path] = File{Data: bytes, Mode: fileMode(item.Mode, mode)}
		}
	}
	return payload, nil
}

// DownwardPayload is what the Pod says about itself, as files.
func DownwardPayload(pod *v1.Pod, items []v1.DownwardAPIVolumeFile, mode *int32, facts downward.Facts) (Payload, error) {
	payload := Payload{}
	var failures []error
	for _, item := range items {
		var text string
		var err error
		switch {
		case item.FieldRef != nil:
			text, err = downward.Field(pod, item.FieldRef.FieldPath, facts)
		case item.ResourceFieldRef != nil:
			text, err = downward.Resource(pod, item.ResourceFieldRef, "", facts)
		}
		if err != nil {
			failures = append(failures, err)
			continue
		}
		payload[item.Path] = File{Data: []byte(text), Mode: fileMode(item.Mode, mode)}
	}
	return payload, errors.Join(failures...)
}

// tokenFile is a service account's token as a file. Where the Pod has one user or
// a group of its own, nobody else may read it.
func tokenFile(pod *v1.Pod, token string, mode *int32) File {
	file := File{Data: []byte(token), Mode: fileMode(nil, mode), Owner: onlyUser(pod)}
	if file.Owner != nil || fsGroup(pod) != nil {
		file.Mode = 0o600
	}
	return file
}

// onlyUser is the user that all containers of the Pod run as by the manifest, nil
// when they differ or do not say.
func onlyUser(pod *v1.Pod) *int64 {
	var inherited *int64
	if pod.Spec.SecurityContext != nil {
		inherited = pod.Spec.SecurityContext.RunAsUser
	}
	var only *int64
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			user := inherited
			if sc := list[i].SecurityContext; sc != nil && sc.RunAsUser != nil {
				user = sc.RunAsUser
			}
			if user == nil || (only != nil && *only != *user) {
				return nil
			}
			only = user
		}
	}
	return only
}

func fsGroup(pod *v1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

func fileMode(own, volumes *int32) fs.FileMode {
	if own != nil {
		return fs.FileMode(*own) & fs.ModePerm
	}
	return fs.FileMode(ptr.Deref(volumes, v1.ConfigMapVolumeSourceDefaultMode)) & fs.ModePerm
}
