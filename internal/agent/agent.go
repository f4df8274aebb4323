package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"golang.org/x/sync/errgroup"

	"muster.dev/muster/internal/agent/endpoint"
	"muster.dev/muster/internal/agent/probe"
	"muster.dev/muster/internal/agent/volume"
)

// Run is the agent's life: it returns when parent ends, or with the error that kept
// it from starting. Containers go on when it returns; only what was being decided
// for them stops.
func Run(parent context.Context, config Config) error {
	config, err := config.withDefaults()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(parent)
	a, err := newAgent(ctx, config)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.serveEndpoint(ctx, group); err != nil {
		return err
	}
	group.Go(func() error { return a.runNode(ctx) })
	group.Go(func() error { return a.runPods(ctx) })
	group.Go(func() error { a.pods.follow(ctx); return nil })
	if err := group.Wait(); parent.Err() == nil {
		return err
	}
	return nil
}

// serveEndpoint takes the endpoint's address and serves there.
func (a *agent) serveEndpoint(ctx context.Context, group *errgroup.Group) error {
	where := a.config.Endpoint
	if where.Listen == "" {
		return nil
	}
	server, err := endpoint.New(endpoint.Options{
		Listen: where.Listen, CertFile: where.CertFile, KeyFile: where.KeyFile, ClientCAFile: where.ClientCAFile,
		Client: a.config.Client, NodeName: a.config.NodeName, Pods: a.pods, Runtime: a.runtime,
	})
	if err != nil {
		return err
	}
	a.node.port = int32(server.Addr().(*net.TCPAddr).Port)
	group.Go(func() error { return server.Run(ctx) })
	return nil
}

// agent is what Run owns.
type agent struct {
	*shared
	node *node
	pods *pods
	api  informers.SharedInformerFactory // this node's Pods
	all  informers.SharedInformerFactory // services
}

func newAgent(ctx context.Context, config Config) (*agent, error) {
	if err := makeDirs(config); err != nil {
		return nil, err
	}
	machine := thisMachine(config.RootDir)
	capacity, err := machine.capacity(config.MaxPods)
	if err != nil {
		return nil, err
	}
	api, err := newClients(config)
	if err != nil {
		return nil, err
	}
	s := &shared{
		config: config, client: api.pods, runtime: config.Runtime, clock: config.Clock, log: config.Logger,
		dirs:      dirs{root: config.RootDir},
		links:     logLinks{pods: config.PodLogsDir, containers: config.ContainerLogsDir},
		events:    newEvents(ctx, api.events, config.NodeName),
		pulls:     newImages(ctx, config.Runtime, config.Clock, config.MaxPulls),
		admission: newAdmission(api.pods, config.NodeName),
		capacity:  capacity,
	}
	for _, ip := range config.NodeIPs {
		s.hostIPs = append(s.hostIPs, ip.String())
	}
	s.volumes = volume.New(volume.Options{
		RootDir: config.RootDir, Client: api.pods, NodeName: config.NodeName,
		Allocatable: s.allocatable, Now: config.Clock.Now,
	})
	a := &agent{shared: s, pods: newPods(s)}
	s.probes = probe.New(probe.Options{
		Runtime: config.Runtime, Changed: a.pods.wake,
		Unhealthy: func(pod *v1.Pod, container, message string) {
			s.events.Container(pod, container, v1.EventTypeWarning, "Unhealthy", message)
		},
	})
	a.api = informers.NewSharedInformerFactoryWithOptions(api.pods, 0, informers.WithTransform(trim),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", config.NodeName).String()
		}))
	a.all = informers.NewSharedInformerFactoryWithOptions(api.pods, 0, informers.WithTransform(trim))
	s.allServices = a.all.Core().V1().Services().Lister()
	a.node = newNode(s, api.node, machine)
	return a, nil
}

// trim drops what the agent never reads of an object.
func trim(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return obj, nil
}

// runNode registers the Node and keeps it true.
func (a *agent) runNode(ctx context.Context) error {
	if err := a.node.register(ctx); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { a.node.keepLease(ctx); return nil })
	group.Go(func() error { a.node.keepStatus(ctx); return nil })
	return group.Wait()
}

// runPods recovers what is here and then follows the API.
func (a *agent) runPods(ctx context.Context) error {
	informer, services := a.api.Core().V1().Pods().Informer(), a.all.Core().V1().Services().Informer()
	_, err := informer.AddEventHandler(a.pods.handler())
	if err := errors.Join(err, a.logTroubles(informer, "Pods"), a.logTroubles(services, "Services")); err != nil {
		return fmt.Errorf("following the API: %w", err)
	}
	a.api.Start(ctx.Done())
	a.all.Start(ctx.Done())
	defer a.all.Shutdown()
	defer a.api.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced, services.HasSynced) {
		return context.Cause(ctx)
	}
	if err := a.pods.recover(ctx, a.listed); err != nil {
		return err
	}
	a.pods.rotateLogs(ctx)
	a.pods.wait()
	return nil
}

// logTroubles says when the API cannot be followed; the informer tries again by itself.
func (a *agent) logTroubles(informer cache.SharedIndexInformer, what string) error {
	return informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if errors.Is(err, io.EOF) {
			return // the watch ended in its time
		}
		a.log.Warn("Following the API failed, will retry", "what", what, "err", err)
	})
}

func (a *agent) listed() ([]*v1.Pod, error) {
	return a.api.Core().V1().Pods().Lister().List(labels.Everything())
}

func (a *agent) close() {
	a.pods.wait()
	a.probes.Close()
	a.pulls.close()
	a.events.close()
}
