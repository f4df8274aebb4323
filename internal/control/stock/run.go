package stock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"

	"muster.dev/muster/internal/pki"
)

const (
	// resync is how often every object is looked at again though nothing changed.
	resync = 12 * time.Hour
	// discoveryPeriod is how often the kinds that exist are read again.
	discoveryPeriod = 10 * time.Second
	// workers is how many objects of one controller are worked on at once.
	workers = 5
)

// Config is what the controllers need.
type Config struct {
	// Client reaches the API server with the rights of the cluster's owner.
	Client *rest.Config
	// PKI signs certificate requests and service-account tokens, and holds the
	// root certificate that every namespace gets.
	PKI *pki.PKI
}

// world is what the controllers share: one set of caches, one view of the kinds.
type world struct {
	Config
	client   kubernetes.Interface
	objects  informers.SharedInformerFactory
	metadata metadatainformer.SharedInformerFactory
	// either has a cache for any kind: of whole objects where a controller reads
	// them anyway, else of their metadata only.
	either informerfactory.InformerFactory
	// started is closed when the caches that the controllers asked for run.
	started chan struct{}
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

// loop is one controller: run returns when ctx ends and its work has stopped.
type loop struct {
	name string
	run  func(ctx context.Context)
}

// controllers make the loops, in the order they start.
var controllers = []func(context.Context, *world) ([]loop, error){
	newNamespaces,
	newAccounts,
	newCertificates,
	newGarbageCollection,
	newEndpoints,
	newQuota,
	newRoles,
}

// Run runs all the controllers until ctx ends, and returns when all have ended.
// The end of ctx is not an error.
func Run(ctx context.Context, c Config) error {
	// The caches outlive the loops: those still read while they stop.
	caching, stopCaches := context.WithCancel(context.WithoutCancel(ctx))
	w, err := newWorld(c)
	if err != nil {
		stopCaches()
		return fmt.Errorf("preparing the stock controllers: %w", err)
	}
	defer w.shutdown(stopCaches)
	var loops []loop
	for _, controller := range controllers {
		made, err := controller(ctx, w)
		if err != nil {
			return fmt.Errorf("preparing the stock controllers: %w", err)
		}
		loops = append(loops, made...)
	}
	w.either.Start(caching.Done())
	close(w.started)

	var running sync.WaitGroup
	stopped := make(chan string, len(loops))
	running.Go(func() { wait.UntilWithContext(ctx, func(context.Context) { w.mapper.Reset() }, discoveryPeriod) })
	loopCtx, stopLoops := context.WithCancel(ctx)
	for _, l := range loops {
		running.Go(func() {
			l.run(loopCtx)
			stopped <- l.name
		})
	}
	err = w.watch(ctx, stopped)
	stopLoops()
	running.Wait()
	return err
}

// watch returns when ctx ends, or with an error when a controller stops before.
func (w *world) watch(ctx context.Context, stopped <-chan string) error {
	select {
	case <-ctx.Done():
		return nil
	case name := <-stopped:
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("running the stock controllers: the %s controller stopped", name)
	}
}

// newWorld makes the shared clients and caches, without starting anything.
func newWorld(c Config) (*world, error) {
	if c.Client == nil || c.PKI == nil {
		return nil, errors.New("a client and a certificate store are needed")
	}
	w := &world{Config: c, started: make(chan struct{})}
	config := w.config("shared-informers")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	w.client = client
	w.objects = informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithTransform(withoutManagers))
	w.metadata = metadatainformer.NewSharedInformerFactoryWithOptions(
		metadataClient, resync, metadatainformer.WithTransform(withoutManagers))
	w.either = informerfactory.NewInformerFactory(w.objects, w.metadata)
	w.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	return w, nil
}

// withoutManagers drops who manages which field: nobody here reads it, and it is
// a third of an object.
func withoutManagers(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}

// config is the client configuration of one controller, so that the API server's
// log and the fields' managers name it.
func (w *world) config(name string) *rest.Config { return rest.AddUserAgent(w.Client, name) }

// shutdown stops the caches and waits for them.
func (w *world) shutdown(stop context.CancelFunc) {
	stop()
	w.objects.Shutdown()
	w.metadata.Shutdown()
}
