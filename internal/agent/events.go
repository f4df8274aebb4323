package agent

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// events tells people what happens, as API events in Kubernetes' words. It never
// blocks: events are news, not state, and are dropped when nobody takes them.
type events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
	node        *v1.ObjectReference
}

func newEvents(ctx context.Context, client kubernetes.Interface, nodeName string) *events {
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)))
	broadcaster.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	source := v1.EventSource{Component: "kubelet", Host: nodeName}
	return &events{
		broadcaster: broadcaster,
		recorder:    broadcaster.NewRecorder(scheme.Scheme, source),
		// The field's own convention: a Node's events carry its name as UID.
		node: &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: nodeName, UID: types.UID(nodeName)},
	}
}

func (e *events) close() { e.broadcaster.Shutdown() }

// Node reports something about this node.
func (e *events) Node(kind, reason, message string) {
	e.recorder.Event(e.node, kind, reason, message)
}

// Pod reports something about a whole Pod.
func (e *events) Pod(pod *v1.Pod, kind, reason, message string) {
	e.recorder.Event(podReference(pod, ""), kind, reason, message)
}

// Container reports something about one container of a Pod.
func (e *events) Container(pod *v1.Pod, container, kind, reason, message string) {
	e.recorder.Event(podReference(pod, containerPath(pod, container)), kind, reason, message)
}

func podReference(pod *v1.Pod, path string) *v1.ObjectReference {
	return &v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1",
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion, FieldPath: path,
	}
}

// containerPath is how events name a container: spec.initContainers{setup}.
func containerPath(pod *v1.Pod, name string) string {
	for _, c := range pod.Spec.InitContainers {
		if c.Name == name {
			return fmt.Sprintf("spec.initContainers{%s}", name)
		}
	}
	if findEphemeral(pod, name) != nil {
		return fmt.Sprintf("spec.ephemeralContainers{%s}", name)
	}
	return fmt.Sprintf("spec.containers{%s}", name)
}
