package coverage

import v1 "k8s.io/api/core/v1"

// PoolLabels are the labels by which node pools are commonly known, the most
// telling first: those of the large providers and of the tools that make nodes.
var PoolLabels = []string{
	"karpenter.sh/nodepool",
	"eks.amazonaws.com/nodegroup",
	"alpha.eksctl.io/nodegroup-name",
	"cloud.google.com/gke-nodepool",
	"kubernetes.azure.com/agentpool",
	"doks.digitalocean.com/node-pool",
	"worker.gardener.cloud/pool",
	"kops.k8s.io/instancegroup",
}

// Names of the pools of nodes that no label sorts.
const (
	// PoolAll is the one pool of a cluster without pool labels.
	PoolAll = "all"
	// PoolNone is the pool of a node that lacks the label others have.
	PoolNone = "<none>"
)

// PoolOf is the value of the node's pool label: of label where it is given, else
// of the first of PoolLabels that the node has. It is empty for a node with none.
func PoolOf(node *v1.Node, label string) string {
	if label != "" {
		return node.Labels[label]
	}
	for _, each := range PoolLabels {
		if pool := node.Labels[each]; pool != "" {
			return pool
		}
	}
	return ""
}
