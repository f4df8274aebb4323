package stock

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
)

// namespaceResync is how often a namespace is looked at again.
const namespaceResync = 5 * time.Minute

// newNamespaces empties namespaces that are being deleted, and then lets them go.
func newNamespaces(ctx context.Context, w *world) ([]loop, error) {
	config := w.config("namespace-controller")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := namespace.NewNamespaceController(ctx, client, metadataClient,
		client.Discovery().ServerPreferredNamespacedResources,
		w.objects.Core().V1().Namespaces(), namespaceResync, v1.FinalizerKubernetes)
	return []loop{{"namespace", func(ctx context.Context) { c.Run(ctx, workers) }}}, nil
}

// newGarbageCollection deletes what belonged to an owner that is gone, in the
// order the owner's deletion asked for.
func newGarbageCollection(ctx context.Context, w *world) ([]loop, error) {
	config := w.config("generic-garbage-collector")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ignored := map[schema.GroupResource]struct{}{}
	for resource := range garbagecollector.DefaultIgnoredResources() {
		ignored[resource] = struct{}{}
	}
	c, err := garbagecollector.NewGarbageCollector(ctx, client, metadataClient, w.mapper, ignored, w.either, w.started)
	if err != nil {
		return nil, fmt.Errorf("making the garbage collector: %w", err)
	}
	return []loop{{"garbage collection", func(ctx context.Context) {
		var both sync.WaitGroup
		both.Go(func() { c.Run(ctx, workers, discoveryPeriod) })
		both.Go(func() { c.Sync(ctx, client.Discovery(), discoveryPeriod) })
		both.Wait()
	}}}, nil
}
