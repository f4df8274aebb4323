package spec

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"muster.dev/muster/internal/agent/downward"
)

// Env is the container's environment: its own variables in the manifest's order
// (envFrom before env, the last of a name wins), then those of services and of
// the API server that it does not set itself.
func Env(in ContainerInput) ([]v1.EnvVar, error) {
	e := environment{in: in, values: map[string]string{}, services: serviceEnv(in)}
	for _, source := range in.Container.EnvFrom {
		if err := e.addAll(source); err != nil {
			return nil, err
		}
	}
	for _, variable := range in.Container.Env {
		if err := e.add(variable); err != nil {
			return nil, err
		}
	}
	return e.list(), nil
}

// environment is a set of variables that remembers the order of its names.
type environment struct {
	in       ContainerInput
	order    []string
	values   map[string]string
	services map[string]string
}

func (e *environment) set(name, value string) {
	if _, known := e.values[name]; !known {
		e.order = append(e.order, name)
	}
	e.values[name] = value
}

// lookup is what $(NAME) sees: the variables before it, then the services'.
func (e *environment) lookup(name string) (string, bool) {
	if value, ok := e.values[name]; ok {
		return value, true
	}
	value, ok := e.services[name]
	return value, ok
}

func (e *environment) list() []v1.EnvVar {
	list := make([]v1.EnvVar, 0, len(e.order)+len(e.services))
	for _, name := range e.order {
		list = append(list, v1.EnvVar{Name: name, Value: e.values[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(e.services)) {
		if _, own := e.values[name]; !own {
			list = append(list, v1.EnvVar{Name: name, Value: e.services[name]})
		}
	}
	return list
}

// addAll adds every key of an envFrom source whose name an environment can hold.
func (e *environment) addAll(source v1.EnvFromSource) error {
	data, err := e.sourceData(source)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		name := source.Prefix + key
		if len(validation.IsRelaxedEnvVarName(name)) == 0 {
			e.set(name, data[key])
		}
	}
	return nil
}

func (e *environment) sourceData(source v1.EnvFromSource) (map[string]string, error) {
	switch {
	case source.ConfigMapRef != nil:
		object, err := e.in.Lookup.ConfigMap(source.ConfigMapRef.Name)
		if err != nil {
			return nil, unlessOptional(err, source.ConfigMapRef.Optional)
		}
		return object.Data, nil
	case source.SecretRef != nil:
		object, err := e.in.Lookup.Secret(source.SecretRef.Name)
		if err != nil {
			return nil, unlessOptional(err, source.SecretRef.Optional)
		}
		return secretText(object), nil
	}
	return nil, nil
}

func (e *environment) add(variable v1.EnvVar) error {
	if variable.ValueFrom == nil {
		e.set(variable.Name, Expand(variable.Value, e.lookup))
		return nil
	}
	value, found, err := e.resolve(variable.ValueFrom)
	if err != nil {
		return err
	}
	if found {
		e.set(variable.Name, value)
	}
	return nil
}

// resolve reads one valueFrom. found is false where something optional is missing:
// then the variable is not set at all.
func (e *environment) resolve(from *v1.EnvVarSource) (value string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = downward.Field(e.in.Pod, from.FieldRef.FieldPath, e.in.facts())
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = downward.Resource(e.in.Pod, from.ResourceFieldRef, e.in.Container.Name, e.in.facts())
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		return e.configMapKey(from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return e.secretKey(from.SecretKeyRef)
	case from.FileKeyRef != nil:
		return e.fileKey(from.FileKeyRef)
	}
	return "", false, errors.New("environment variable has an empty valueFrom")
}

func (e *environment) configMapKey(ref *v1.ConfigMapKeySelector) (string, bool, error) {
	object, err := e.in.Lookup.ConfigMap(ref.Name)
	if err != nil {
		return "", false, unlessOptional(err, ref.Optional)
	}
	value, found := object.Data[ref.Key]
	if !found && !ptr.Deref(ref.Optional, false) {
		return "", false, fmt.Errorf("couldn't find key %s in ConfigMap %s/%s", ref.Key, e.in.Pod.Namespace, ref.Name)
	}
	return value, found, nil
}

func (e *environment) secretKey(ref *v1.SecretKeySelector) (string, bool, error) {
	object, err := e.in.Lookup.Secret(ref.Name)
	if err != nil {
		return "", false, unlessOptional(err, ref.Optional)
	}
	value, found := object.Data[ref.Key]
	if !found && !ptr.Deref(ref.Optional, false) {
		return "", false, fmt.Errorf("couldn't find key %s in Secret %s/%s", ref.Key, e.in.Pod.Namespace, ref.Name)
	}
	return string(value), found, nil
}

func unlessOptional(err error, optional *bool) error {
	if ptr.Deref(optional, false) && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func secretText(object *v1.Secret) map[string]string {
	text := make(map[string]string, len(object.Data))
	for key, value := range object.Data {
		text[key] = string(value)
	}
	return text
}
