package agent

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// pods are the workers of all Pods on this node, one for each UID.
type pods struct {
	*shared
	group sync.WaitGroup

	mu      sync.Mutex // guards what follows
	workers map[types.UID]*worker
	open    bool            // recovery has seen everything; news may start workers
	ctx     context.Context // the workers' life; set with open
}

func newPods(s *shared) *pods {
	return &pods{shared: s, workers: map[types.UID]*worker{}}
}

// handler passes the API's news on to the workers.
func (p *pods) handler() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.changed(obj.(*v1.Pod)) },
		UpdateFunc: func(_, obj any) { p.changed(obj.(*v1.Pod)) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if pod, ok := obj.(*v1.Pod); ok {
				p.gone(pod)
			}
		},
	}
}

func (p *pods) changed(pod *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.workers[pod.UID]; known != nil {
		known.update(pod)
	} else if p.open && pod.Spec.NodeName == p.config.NodeName {
		p.startLocked(newWorker(p.shared, pod, false))
	}
}

func (p *pods) gone(last *v1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.workers[last.UID]; known != nil {
		known.remove(last)
	}
}

func (p *pods) startLocked(w *worker) {
	p.workers[w.uid] = w
	ctx := p.ctx
	p.group.Go(func() {
		w.run(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.isFinished() {
			delete(p.workers, w.uid)
		}
	})
}

// follow passes the runtime's news on to the workers until events ends.
func (p *pods) follow(ctx context.Context) {
	for event := range p.runtime.Events(ctx) {
		p.mu.Lock()
		if w := p.workers[event.PodUID]; w != nil {
			w.event()
		} else if event.PodUID == "" {
			for _, w := range p.workers {
				w.event()
			}
		}
		p.mu.Unlock()
	}
}

// wake wakes one Pod's worker; a Pod without one is no error.
func (p *pods) wake(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.workers[uid]; w != nil {
		w.poke()
	}
}

// wait takes no more Pods and returns when every worker has ended; their context
// must have.
func (p *pods) wait() {
	p.mu.Lock()
	p.open = false
	p.mu.Unlock()
	p.group.Wait()
}
