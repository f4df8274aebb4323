package agent

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"muster.dev/muster/internal/placement"
	"muster.dev/muster/internal/reason"
)

// admission is the node's last word on a Pod bound to it: whoever bound it may
// have worked from an old view. What fits is placement's to say; of its reasons
// only those count that no toleration or wish can change on the node itself.
type admission struct {
	client kubernetes.Interface
	node   string

	mu     sync.Mutex // guards ledger
	ledger *placement.Ledger
}

func newAdmission(client kubernetes.Interface, node string) *admission {
	return &admission{client: client, node: node, ledger: placement.NewLedger()}
}

// hold books room for a Pod that was admitted before.
func (a *admission) hold(pod *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ledger.SetPod(pod)
}

// free gives back the room of a Pod of which nothing runs any more.
func (a *admission) free(pod *v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ledger.RemovePod(pod)
}

// admit books room for a Pod or says why there is none. It works from the Node as
// it is now: a label or a resource may have come with the very Pod that needs it.
func (a *admission) admit(ctx context.Context, pod *v1.Pod) (refusal *reason.Reason, err error) {
	node, err := a.client.CoreV1().Nodes().Get(ctx, a.node, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading node %s: %w", a.node, err)
	}
	if why := cannotRun(pod, node); why != nil {
		return why, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ledger.SetNode(node)
	for _, why := range placement.Fits(pod, a.ledger, a.node) {
		if code := refusalCode(why); code != "" {
			why.Code = code
			return &why, nil
		}
	}
	a.ledger.SetPod(pod)
	return nil, nil
}

// refusalCode is the word by which a node refuses for a reason; empty where the
// reason is the scheduler's alone.
func refusalCode(why reason.Reason) reason.Code {
	switch why.Code {
	case reason.TooManyPods:
		return reason.OutOfPods
	case reason.HostPortTaken:
		return reason.NodePorts
	case reason.NodeSelector:
		return reason.NodeAffinity
	case reason.InsufficientResource:
		switch v1.ResourceName(why.Object) {
		case v1.ResourceCPU:
			return reason.OutOfCPU
		case v1.ResourceMemory:
			return reason.OutOfMemory
		case v1.ResourceEphemeralStorage:
			return reason.OutOfEphemeralStorage
		}
		return reason.OutOfResource
	}
	return ""
}
