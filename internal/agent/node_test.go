package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (n *testNode) node(t *testing.T) *v1.Node {
	t.Helper()
	node, err := n.api.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func TestNodeRegisters(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.config.Labels, n.config.Version = map[string]string{"pool": "gpu"}, "v1.2.3"
		defer n.start(t)()
		node := n.node(t)
		if node.Labels["pool"] != "gpu" || node.Labels[v1.LabelHostname] != "n1" || node.Labels[v1.LabelOSStable] != "linux" {
			t.Errorf("labels %v", node.Labels)
		}
		if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != v1.TaintNodeNotReady {
			t.Errorf("taints %v", node.Spec.Taints)
		}
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods, v1.ResourceEphemeralStorage} {
			if q := node.Status.Capacity[name]; q.Sign() <= 0 {
				t.Errorf("capacity %s is %v", name, q.String())
			}
		}
		ready := condition(node.Status, v1.NodeReady)
		if ready == nil || ready.Status != v1.ConditionTrue || ready.Reason != "KubeletReady" {
			t.Errorf("Ready is %+v", ready)
		}
		info := node.Status.NodeInfo
		if info.ContainerRuntimeVersion != "fake://1" || info.KubeletVersion != "v1.2.3" || info.BootID == "" {
			t.Errorf("node info %+v", info)
		}
	})
}

func TestLeaseIsRenewed(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		defer n.start(t)()
		leases := n.api.CoordinationV1().Leases(v1.NamespaceNodeLease)
		for range 5 {
			time.Sleep(11 * time.Second)
			synctest.Wait()
			lease, err := leases.Get(context.Background(), "n1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if age := time.Since(lease.Spec.RenewTime.Time); age > 11*time.Second || *lease.Spec.LeaseDurationSeconds != 40 {
				t.Errorf("lease of %d s is %v old", *lease.Spec.LeaseDurationSeconds, age)
			}
			if len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].Kind != "Node" {
				t.Errorf("owners %v", lease.OwnerReferences)
			}
		}
	})
}

func TestNodeFollowsItsRuntime(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		defer n.start(t)()
		n.runtime.Disconnect()
		time.Sleep(statusCheck + time.Second)
		synctest.Wait()
		ready := condition(n.node(t).Status, v1.NodeReady)
		if ready.Status != v1.ConditionFalse || ready.Reason != "KubeletNotReady" || !strings.Contains(ready.Message, "container runtime is down") {
			t.Errorf("while the runtime is down Ready is %+v", ready)
		}
		n.runtime.Connect()
		time.Sleep(statusCheckSoon + time.Second)
		synctest.Wait()
		if ready := condition(n.node(t).Status, v1.NodeReady); ready.Status != v1.ConditionTrue {
			t.Errorf("when the runtime is back Ready is %+v", ready)
		}
	})
}

func TestNodeKeepsWhatOthersWrote(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		defer n.start(t)()
		node := n.node(t)
		node.Labels["zone"] = "z1"
		node.Spec.Taints = nil
		node, err := n.api.CoreV1().Nodes().Update(context.Background(), node, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node.Status.Capacity["example.com/gpu"] = resource.MustParse("4")
		node.Status.Conditions = append(node.Status.Conditions, v1.NodeCondition{Type: "FrequentRestart", Status: v1.ConditionFalse})
		if _, err := n.api.CoreV1().Nodes().UpdateStatus(context.Background(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(statusRenewal + statusCheck)
		synctest.Wait()
		got := n.node(t)
		if gpus := got.Status.Capacity["example.com/gpu"]; gpus.Value() != 4 {
			t.Errorf("extended resource is %v", gpus.String())
		}
		if condition(got.Status, "FrequentRestart") == nil || got.Labels["zone"] != "z1" || len(got.Spec.Taints) != 0 {
			t.Errorf("others' work is gone: %v %v %v", got.Labels, got.Spec.Taints, got.Status.Conditions)
		}
		if age := time.Since(condition(got.Status, v1.NodeReady).LastHeartbeatTime.Time); age > statusRenewal {
			t.Errorf("the status was last written %v ago", age)
		}
	})
}

func TestPressureIsReported(t *testing.T) {
	for _, c := range []struct {
		name  string
		facts nodeFacts
		want  v1.ConditionStatus
	}{
		{"nothing wrong", nodeFacts{}, v1.ConditionTrue},
		{"a trouble", nodeFacts{troubles: []error{errors.New("x"), errors.New("y")}}, v1.ConditionFalse},
	} {
		if got := c.facts.ready(); got.Status != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	low := pressure(v1.NodeMemoryPressure, true, "fine", "is fine", "bad", "is bad")
	if low.Status != v1.ConditionTrue || low.Reason != "bad" || low.Message != "is bad" {
		t.Errorf("under pressure: %+v", low)
	}
}

func TestAllocatableIsNeverNegative(t *testing.T) {
	capacity := v1.ResourceList{
		v1.ResourceMemory: resource.MustParse("4Gi"), v1.ResourceCPU: resource.MustParse("1"),
		"hugepages-2Mi": resource.MustParse("1Gi"),
	}
	free := allocatable(capacity, v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi"), v1.ResourceCPU: resource.MustParse("3")})
	if free.Memory().String() != "2Gi" || !free.Cpu().IsZero() {
		t.Errorf("allocatable %v", free)
	}
	if capacity.Memory().String() != "4Gi" {
		t.Error("capacity was changed")
	}
}
