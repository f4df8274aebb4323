package agent

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime/fake"
)

// TestEphemeralContainerSeesItsTarget: it is added while the Pod runs, joins the
// process namespace of the container it names, and nothing else changes.
func TestEphemeralContainerSeesItsTarget(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		namespaces := map[string]*cri.NamespaceOption{}
		n.script = func(s fake.Start) fake.Run {
			namespaces[s.Config.Metadata.Name] = s.Config.Linux.SecurityContext.NamespaceOptions
			return fake.Run{}
		}
		defer n.start(t)()
		pod := testPod(apps("main"))
		n.api.create(t, pod)
		n.await(t, pod, time.Second, "Ready", ready)
		n.api.change(t, pod, func(p *v1.Pod) {
			p.Spec.EphemeralContainers = []v1.EphemeralContainer{{TargetContainerName: "main", EphemeralContainerCommon: v1.EphemeralContainerCommon{
				Name: "look", Image: "example.test/app:1", ImagePullPolicy: v1.PullIfNotPresent}}}
		})
		got := n.await(t, pod, time.Second, "looked into", func(p *v1.Pod) bool {
			return len(p.Status.EphemeralContainerStatuses) == 1 && p.Status.EphemeralContainerStatuses[0].State.Running != nil
		})
		if !ready(got) || !slices.Equal(n.order(), []string{"main/0", "look/0"}) {
			t.Errorf("started %v: %s", n.order(), describe(got))
		}
		main := n.held(t, pod).Containers[0]
		if of := namespaces["look"]; main.Name != "main" || of.Pid != cri.NamespaceMode_TARGET || of.TargetId != main.ID {
			t.Errorf("it has the namespaces %v, want those of %s %s", of, main.Name, main.ID)
		}
		n.kill(t, pod, "look", 1)
		got = n.await(t, pod, time.Second, "done looking", func(p *v1.Pod) bool {
			return p.Status.EphemeralContainerStatuses[0].State.Terminated != nil
		})
		time.Sleep(time.Hour)
		if !ready(n.api.get(pod)) || len(n.order()) != 2 {
			t.Errorf("started %v: %s", n.order(), describe(got))
		}
	})
}
