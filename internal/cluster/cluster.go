package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/daemonset"
	"muster.dev/muster/internal/reason"
)

// Room is the account of who holds what on which node.
type Room interface {
	// Fits says why a Pod does not fit on a node; none where it does.
	Fits(pod *v1.Pod, node string) []reason.Reason
	// Reserve is Fits that holds the room for the Pod where it fits.
	Reserve(pod *v1.Pod, node string) []reason.Reason
	// Release gives back what is held for a Pod that was not created.
	Release(namespace, name string)
}

// unseenCheck is how soon to look again at Pods that were created and not yet
// seen in the cache.
const unseenCheck = 5 * time.Second

// Options are what a Cluster stands on.
type Options struct {
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Events    record.EventRecorder
	Clock     clock.PassiveClock
	// Room decides whether a daemon's Pod is created bound; without it none is.
	Room Room
	// Wake is told of every set whose column has changed, possibly so that another
	// plan is due; urgent says that the set itself has. It must not block.
	Wake func(set types.UID, urgent bool)
}

// Cluster is the matrix kept up to date. It is safe for concurrent use, save that
// one set's plans must be decided and applied one after the other.
type Cluster struct {
	Options
	podStore cache.Store
	synced   []cache.DoneChecker

	mu        sync.Mutex
	matrix    *coverage.Matrix
	revisions map[string]map[string]*appsv1.ControllerRevision // by namespace and name
	orphans   map[string]map[types.UID]*v1.Pod                 // Pods without a controller, by namespace
	failures  map[types.UID]daemonset.Failures                 // by set
	paces     map[types.UID]*pace                              // by set
	// deleting are Pods whose deletion the API has accepted and no news has shown
	// yet; news from before the deletion must not bring them back to life.
	deleting map[types.UID]time.Time
	// unseen are Pods the API has created for us and no news has shown yet.
	unseen map[types.UID]*v1.Pod
}

// New is a Cluster that fills once the informers run.
func New(options Options) (*Cluster, error) {
	c := &Cluster{
		Options:   options,
		podStore:  options.Informers.Core().V1().Pods().Informer().GetStore(),
		matrix:    coverage.New(),
		revisions: map[string]map[string]*appsv1.ControllerRevision{},
		orphans:   map[string]map[types.UID]*v1.Pod{},
		failures:  map[types.UID]daemonset.Failures{},
		paces:     map[types.UID]*pace{},
		deleting:  map[types.UID]time.Time{},
		unseen:    map[types.UID]*v1.Pod{},
	}
	core, apps := options.Informers.Core().V1(), options.Informers.Apps().V1()
	for _, source := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{core.Nodes().Informer(), news(c.setNode, c.removeNode)},
		{core.Pods().Informer(), news(c.setPod, c.removePod)},
		{apps.DaemonSets().Informer(), news(c.setDaemon, c.removeDaemon)},
		{apps.ControllerRevisions().Informer(), news(c.setRevision, c.removeRevision)},
	} {
		registration, err := source.informer.AddEventHandler(source.handler)
		if err != nil {
			return nil, fmt.Errorf("following the API: %w", err)
		}
		c.synced = append(c.synced, registration.HasSyncedChecker())
	}
	return c, nil
}

// WaitForSync waits until the matrix holds all that the caches were first filled
// with; false when ctx ends before. Nothing may be decided earlier.
func (c *Cluster) WaitForSync(ctx context.Context) bool {
	return cache.WaitFor(ctx, "the coverage matrix", c.synced...)
}

// Decide is the plan for one set as the matrix stands now; false for a set that
// is not there.
func (c *Cluster) Decide(set types.UID) (daemonset.Plan, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buryLocked()
	column, ok := c.matrix.Column(set)
	if !ok {
		delete(c.failures, set)
		delete(c.paces, set)
		return daemonset.Plan{}, false
	}
	in := daemonset.Input{Column: column, Failures: c.failures[set], Fits: c.fits()}
	for _, revision := range c.revisions[column.Set.Namespace] {
		in.Revisions = append(in.Revisions, revision)
	}
	for _, pod := range c.orphans[column.Set.Namespace] {
		in.Orphans = append(in.Orphans, pod)
	}
	now := c.Clock.Now()
	plan := daemonset.Decide(in, now)
	if soon := now.Add(unseenCheck); len(c.unseen) > 0 && (plan.Next.IsZero() || soon.Before(plan.Next)) {
		plan.Next = soon
	}
	return plan, true
}

func (c *Cluster) fits() daemonset.Fits {
	if c.Room == nil {
		return nil
	}
	return func(pod *v1.Pod, node *v1.Node) []reason.Reason { return c.Room.Fits(pod, node.Name) }
}

// Report reads the matrix out by pool.
func (c *Cluster) Report(poolLabel string) coverage.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.matrix.Report(poolLabel, c.Clock.Now())
}

// buryLocked takes out Pods that were created for us and are gone again without
// any news of them: the cache has read past their creation and does not hold them.
func (c *Cluster) buryLocked() {
	for uid, pod := range c.unseen {
		read, err := resourceversion.CompareResourceVersion(c.podStore.LastStoreSyncResourceVersion(), pod.ResourceVersion)
		if err != nil || read < 0 {
			continue
		}
		held, ok, _ := c.podStore.Get(pod)
		if cached, is := held.(*v1.Pod); !ok || (is && cached.UID != uid) {
			c.matrix.RemovePod(uid)
		}
		delete(c.unseen, uid)
	}
}

// newer says that a comes after b in the history of one object; what cannot be
// compared is taken for newer.
func newer(a, b metav1.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err != nil || order >= 0
}
