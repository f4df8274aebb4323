package agent

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestNodeRefusesWhatDoesNotFit(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		defer n.start(t)()
		first := testPod(apps("main"), hostPort(8080))
		n.api.create(t, first)
		n.await(t, first, time.Minute, "Ready", ready)
		for reason, edit := range map[string]func(*v1.Pod){
			"NodePorts": hostPort(8080),
			"OutOfcpu": func(p *v1.Pod) {
				p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1000")}
			},
			"NodeAffinity": func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "elsewhere"} },
		} {
			pod := testPod(apps("main"), edit)
			n.api.create(t, pod)
			got := n.await(t, pod, time.Minute, "refused", inPhase(v1.PodFailed))
			if got.Status.Reason != reason {
				t.Errorf("refused as %s (%s), want %s", got.Status.Reason, got.Status.Message, reason)
			}
		}
		n.api.delete(t, first, 1)
		n.awaitDisk(t, first, time.Minute, func(d disk) bool { return d == disk{} })
		second := testPod(apps("main"), hostPort(8080))
		n.api.create(t, second)
		n.await(t, second, time.Minute, "Ready once the port is free", ready)
	})
}
