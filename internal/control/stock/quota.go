package stock

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/kubernetes/pkg/quota/v1/install"
)

// quotaResync is how often a quota's usage is counted anew.
const quotaResync = 5 * time.Minute

// newQuota counts what each quota's namespace uses.
func newQuota(ctx context.Context, w *world) ([]loop, error) {
	client, err := kubernetes.NewForConfig(w.config("resourcequota-controller"))
	if err != nil {
		return nil, err
	}
	lister := generic.ListerFuncForResourceFunc(w.objects.ForResource)
	evaluators, err := core.NewEvaluators(lister, w.objects, servedToQuota)
	if err != nil {
		return nil, fmt.Errorf("making the quota evaluators: %w", err)
	}
	counting := generic.NewConfiguration(countNone(evaluators), install.DefaultIgnoredResources())
	discover := client.Discovery().ServerPreferredNamespacedResources
	c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     w.objects.Core().V1().ResourceQuotas(),
		ResyncPeriod:              controller.StaticResyncPeriodFunc(quotaResync),
		InformerFactory:           w.either,
		ReplenishmentResyncPeriod: controller.StaticResyncPeriodFunc(resync),
		DiscoveryFunc:             discover,
		IgnoredResourcesFunc:      counting.IgnoredResources,
		InformersStarted:          w.started,
		Registry:                  generic.NewRegistry(counting.Evaluators()),
		UpdateFilter:              install.DefaultUpdateFilter(),
	})
	if err != nil {
		return nil, fmt.Errorf("making the quota controller: %w", err)
	}
	return []loop{{"quota", func(ctx context.Context) {
		var both sync.WaitGroup
		both.Go(func() { c.Run(ctx, workers) })
		both.Go(func() { c.Sync(ctx, discover, discoveryPeriod) })
		both.Wait()
	}}}, nil
}

// servedToQuota leaves out the counting of device claims: they are not served, and
// it would wait for them for ever.
func servedToQuota(r schema.GroupVersionResource) bool { return r.Group != resourcev1.GroupName }

// countNone has replication controllers, which many quotas name, counted without
// being looked for: they are not served, so there is none.
func countNone(evaluators []quota.Evaluator) []quota.Evaluator {
	unserved := v1.Resource("replicationcontrollers")
	none := func(string) ([]runtime.Object, error) { return nil, nil }
	for i, e := range evaluators {
		if e.GroupResource() == unserved {
			evaluators[i] = generic.NewObjectCountEvaluator(unserved, none, v1.ResourceReplicationControllers)
		}
	}
	return evaluators
}

// newRoles keeps cluster roles that are the sum of others.
func newRoles(_ context.Context, w *world) ([]loop, error) {
	client, err := kubernetes.NewForConfig(w.config("clusterrole-aggregation-controller"))
	if err != nil {
		return nil, err
	}
	c := clusterroleaggregation.NewClusterRoleAggregation(w.objects.Rbac().V1().ClusterRoles(), client.RbacV1())
	return []loop{{"cluster role", func(ctx context.Context) { c.Run(ctx, workers) }}}, nil
}
