package control

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// byNode is the name of the index of Pods by the node they are bound to.
const byNode = "spec.nodeName"

// indexByNode adds the index to the shared cache of Pods, if no other loop has.
func indexByNode(pods cache.SharedIndexInformer) error {
	if _, there := pods.GetIndexer().GetIndexers()[byNode]; there {
		return nil
	}
	err := pods.AddIndexers(cache.Indexers{byNode: func(object any) ([]string, error) {
		if pod, ok := object.(*v1.Pod); ok && pod.Spec.NodeName != "" {
			return []string{pod.Spec.NodeName}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return fmt.Errorf("indexing Pods by node: %w", err)
	}
	return nil
}

// podsOn are the Pods bound to a node, in no order.
func podsOn(pods cache.Indexer, node string) ([]*v1.Pod, error) {
	objects, err := pods.ByIndex(byNode, node)
	if err != nil {
		return nil, fmt.Errorf("looking up the Pods on node %s: %w", node, err)
	}
	found := make([]*v1.Pod, 0, len(objects))
	for _, object := range objects {
		if pod, ok := object.(*v1.Pod); ok {
			found = append(found, pod)
		}
	}
	return found, nil
}
