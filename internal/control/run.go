package control

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"muster.dev/muster/internal/cluster"
)

// Config is what the loops need from outside.
type Config struct {
	// Client reaches the API server with the rights of the control plane.
	Client *rest.Config
	// Clock is the time the loops live by; nil is the machine's own.
	Clock clock.WithTicker
}

// shared is the ground all loops stand on: one client, one set of caches, one
// stream of events.
type shared struct {
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
	clock     clock.WithTicker
	events    record.EventBroadcaster
	// ledger is who holds room on which node.
	ledger *Ledger
}

// recorder gives a loop its own voice in the events.
func (s *shared) recorder(component string) record.EventRecorder {
	return s.events.NewRecorder(scheme.Scheme, v1.EventSource{Component: component})
}

// loop is one controller. set registers it with the shared caches, before they
// start, and returns what runs it: called once the caches are full, it returns
// when ctx ends and all its goroutines have.
type loop struct {
	name string
	set  func(ctx context.Context, s *shared) (run func(ctx context.Context) error, err error)
}

// loops are the loops of the control plane, in the order they are set up.
var loops = []loop{
	{"ledger", setLedger},
	{"daemons", setDaemons},
	{"placement", setPlacement},
	{"nodelife", setNodelife},
	{"podgc", setPodGC},
}

// Run runs every loop until ctx ends or one of them fails, and returns when all
// have ended. The end of ctx is not an error.
func Run(ctx context.Context, config Config) error {
	client, err := kubernetes.NewForConfig(config.Client)
	if err != nil {
		return fmt.Errorf("making the control loops' client: %w", err)
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	return run(ctx, client, config.Clock, loops)
}

func run(ctx context.Context, client kubernetes.Interface, clock clock.WithTicker, loops []loop) error {
	group, ctx := errgroup.WithContext(ctx)
	ground := &shared{
		client:    client,
		informers: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(cluster.Trim)),
		clock:     clock,
		events:    record.NewBroadcaster(record.WithContext(ctx)),
	}
	defer ground.events.Shutdown()
	ledger, err := NewLedger(ground.informers, clock)
	if err != nil {
		return err
	}
	ground.ledger = ledger
	ground.events.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: client.CoreV1().Events("")})

	runs := make([]func(context.Context) error, len(loops))
	for i, each := range loops {
		start, err := each.set(ctx, ground)
		if err != nil {
			return fmt.Errorf("setting up the %s loop: %w", each.name, err)
		}
		runs[i] = start
	}
	defer ground.informers.Shutdown()
	ground.informers.StartWithContext(ctx)
	if synced := ground.informers.WaitForCacheSyncWithContext(ctx); synced.Err != nil {
		return nil // only the end of ctx stops the wait
	}
	for i, each := range loops {
		group.Go(func() error {
			if err := runs[i](ctx); err != nil {
				return fmt.Errorf("running the %s loop: %w", each.name, err)
			}
			return nil
		})
	}
	return group.Wait()
}
