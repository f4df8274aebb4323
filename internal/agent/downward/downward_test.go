package downward

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u-1", Labels: map[string]string{"app": "web"}},
		Spec: v1.PodSpec{
			NodeName: "node-a", ServiceAccountName: "robot",
			InitContainers: []v1.Container{{Name: "setup"}},
			Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
				Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1500m")},
			}}},
		},
	}
}

func TestField(t *testing.T) {
	facts := Facts{HostIPs: []string{"192.0.2.1", "2001:db8::1"}, PodIPs: []string{"10.0.0.2", "fd00::2"}}
	for path, want := range map[string]string{
		"metadata.name": "web", "metadata.namespace": "ns", "metadata.uid": "u-1", "metadata.labels['app']": "web",
		"metadata.labels['none']": "", "spec.nodeName": "node-a", "spec.serviceAccountName": "robot",
		"status.hostIP": "192.0.2.1", "status.hostIPs": "192.0.2.1,2001:db8::1",
		"status.podIP": "10.0.0.2", "status.podIPs": "10.0.0.2,fd00::2",
	} {
		if got, err := Field(testPod(), path, facts); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", path, got, err, want)
		}
	}
	if _, err := Field(testPod(), "status.phase", facts); err == nil {
		t.Error("status.phase is not offered, yet it was answered")
	}
	if got, err := Field(testPod(), "status.podIP", Facts{}); err != nil || got != "" {
		t.Errorf("before there is an address: %q, %v", got, err)
	}
}

func TestResource(t *testing.T) {
	facts := Facts{Allocatable: v1.ResourceList{v1.ResourceMemory: resource.MustParse("3Gi"), v1.ResourceCPU: resource.MustParse("4")}}
	for _, test := range []struct{ asks, names, resource, divisor, want string }{
		{"app", "", "limits.cpu", "0", "2"},
		{"app", "", "limits.cpu", "1m", "1500"},
		{"app", "", "limits.memory", "1Mi", "3072"},
		{"app", "", "requests.memory", "1", "0"},
		{"app", "setup", "limits.cpu", "1", "4"},
	} {
		ref := &v1.ResourceFieldSelector{ContainerName: test.names, Resource: test.resource, Divisor: resource.MustParse(test.divisor)}
		pod := testPod()
		if got, err := Resource(pod, ref, test.asks, facts); err != nil || got != test.want {
			t.Errorf("%+v: got %q, %v", test, got, err)
		}
		if len(pod.Spec.Containers[0].Resources.Limits) != 1 {
			t.Error("the Pod was changed")
		}
	}
	if _, err := Resource(testPod(), &v1.ResourceFieldSelector{ContainerName: "none", Resource: "limits.cpu"}, "app", facts); err == nil {
		t.Error("a container that is not there was answered")
	}
}
