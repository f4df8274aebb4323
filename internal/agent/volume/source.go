package volume

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"muster.dev/muster/internal/reason"
)

// payload reads what a volume is made of and works out its files.
func (m *Manager) payload(ctx context.Context, pod *v1.Pod, volume *v1.Volume) (Payload, error) {
	source := volume.VolumeSource
	switch {
	case source.ConfigMap != nil:
		s := source.ConfigMap
		object, err := m.configMap(ctx, pod.Namespace, s.Name, s.Optional)
		if err != nil {
			return nil, err
		}
		return ConfigMapPayload(object, s.Items, s.DefaultMode, s.Optional)
	case source.Secret != nil:
		s := source.Secret
		object, err := m.secret(ctx, pod.Namespace, s.SecretName, s.Optional)
		if err != nil {
			return nil, err
		}
		return SecretPayload(object, s.Items, s.DefaultMode, s.Optional)
	case source.DownwardAPI != nil:
		return DownwardPayload(pod, source.DownwardAPI.Items, source.DownwardAPI.DefaultMode, m.facts())
	}
	return m.projected(ctx, pod, volume.Name, source.Projected)
}

// projected lays all sources into one volume; of two files with one path the
// later source's counts.
func (m *Manager) projected(ctx context.Context, pod *v1.Pod, name string, source *v1.ProjectedVolumeSource) (Payload, error) {
	all := Payload{}
	for i := range source.Sources {
		part, err := m.projection(ctx, pod, name, &source.Sources[i], source.DefaultMode)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, part)
	}
	return all, nil
}

func (m *Manager) projection(ctx context.Context, pod *v1.Pod, name string, source *v1.VolumeProjection, mode *int32) (Payload, error) {
	switch {
	case source.ConfigMap != nil:
		s := source.ConfigMap
		object, err := m.configMap(ctx, pod.Namespace, s.Name, s.Optional)
		if err != nil {
			return nil, err
		}
		return ConfigMapPayload(object, s.Items, mode, s.Optional)
	case source.Secret != nil:
		s := source.Secret
		object, err := m.secret(ctx, pod.Namespace, s.Name, s.Optional)
		if err != nil {
			return nil, err
		}
		return SecretPayload(object, s.Items, mode, s.Optional)
	case source.DownwardAPI != nil:
		return DownwardPayload(pod, source.DownwardAPI.Items, mode, m.facts())
	case source.ServiceAccountToken != nil:
		text, err := m.token(ctx, pod, source.ServiceAccountToken)
		if err != nil {
			return nil, err
		}
		return Payload{source.ServiceAccountToken.Path: tokenFile(pod, text, mode)}, nil
	}
	return nil, unsupportedField(name, "projected.sources["+firstField(source)+"]")
}

// configMap reads one config map; nil when it is missing and optional.
func (m *Manager) configMap(ctx context.Context, namespace, name string, optional *bool) (*v1.ConfigMap, error) {
	object, err := m.options.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	return unlessAbsent(object, err, optional)
}

// secret reads one secret; nil when it is missing and optional.
func (m *Manager) secret(ctx context.Context, namespace, name string, optional *bool) (*v1.Secret, error) {
	object, err := m.options.Client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	return unlessAbsent(object, err, optional)
}

// unlessAbsent is the answer to a Get, with nothing for an optional object that
// is not there.
func unlessAbsent[T any](object *T, err error, optional *bool) (*T, error) {
	switch {
	case err == nil:
		return object, nil
	case apierrors.IsNotFound(err) && ptr.Deref(optional, false):
		return nil, nil
	default:
		return nil, err
	}
}

// failure names why one volume is not there. Forbidden is a matter of waiting just
// after a Pod was bound: the node may read an object once the API server has seen
// that a Pod on it names the object.
func failure(volume string, err error) reason.Reason {
	code := reason.FailedMount
	if apierrors.IsForbidden(err) {
		code = reason.VolumeNotPermitted
	}
	return reason.Reason{Code: code, Object: volume, Detail: err.Error()}
}

// unsupported names the field of a volume that muster will not act on.
func unsupported(volume *v1.Volume) error {
	return unsupportedField(volume.Name, firstField(volume.VolumeSource))
}

func unsupportedField(volume, field string) error {
	return &NotReady{Reason: reason.Reason{Code: reason.UnsupportedVolume, Object: volume, Detail: fmt.Sprintf("spec.volumes[].%s", field)}}
}

// firstField is the JSON name of the field that is set in a one-of.
func firstField(oneOf any) string {
	text, err := json.Marshal(oneOf)
	if err != nil {
		return "(unknown)"
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil || len(fields) == 0 {
		return "(empty)"
	}
	return slices.Sorted(maps.Keys(fields))[0]
}
