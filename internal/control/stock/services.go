package stock

import (
	"context"

	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/endpoint"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/endpointslicemirroring"
)

// maxEndpointsPerSlice is how many addresses stand in one EndpointSlice, and
// maxMirrored how many of one Endpoints object are mirrored.
const maxEndpointsPerSlice, maxMirrored = 100, 1000

// newEndpoints keeps the addresses of the Pods behind each Service, in both of
// the forms clients read.
func newEndpoints(ctx context.Context, w *world) ([]loop, error) {
	client, err := kubernetes.NewForConfig(w.config("endpointslice-controller"))
	if err != nil {
		return nil, err
	}
	core, slices := w.objects.Core().V1(), w.objects.Discovery().V1().EndpointSlices()
	slice := endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(), slices,
		maxEndpointsPerSlice, client, 0)
	mirror := endpointslicemirroring.NewController(ctx, core.Endpoints(), slices, core.Services(),
		maxMirrored, client, 0)
	plain := endpoint.NewEndpointController(ctx, core.Pods(), core.Services(), core.Endpoints(), client, 0)
	return []loop{
		{"endpoint slice", func(ctx context.Context) { slice.Run(ctx, workers) }},
		{"endpoint slice mirroring", func(ctx context.Context) { mirror.Run(ctx, workers) }},
		{"endpoints", func(ctx context.Context) { plain.Run(ctx, workers) }},
	}, nil
}
