package agent

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/internal/runtime"
)

// Starting is recovering. What it relies on:
//
//  1. Containers outlive the agent, and the runtime names each one's Pod, container
//     and attempt. What runs is never stopped for the sake of a restart.
//  2. What has finished stands in the journal before anything is built upon it, so
//     the runtime may have forgotten it.
//  3. A Pod is gone only when a complete list from the API does not have it. A list
//     that fails says nothing, and nothing happens.
//  4. A Pod that is gone but still here ends like any other, with its grace period,
//     by the object the agent kept of it, or else by what the runtime knows.
//  5. Sandboxes that another agent's root folder made are none of our business.

// recover starts a worker for every Pod of the API, and one for each that is only
// left on this machine. list gives the API's Pods, all of them.
func (p *pods) recover(ctx context.Context, list func() ([]*v1.Pod, error)) error {
	left, err := p.leftovers(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	listed, err := list()
	if err != nil {
		return fmt.Errorf("reading listed Pods: %w", err)
	}
	p.ctx, p.open = ctx, true
	var workers []*worker
	for _, pod := range listed {
		delete(left, pod.UID)
		w := newWorker(p.shared, pod, false)
		if w.open(pod) == nil && w.journal.facts.admitted { // an error comes again in the worker's loop
			p.admission.hold(pod) // those that were here first keep their room
		}
		workers = append(workers, w)
	}
	for uid, pod := range left {
		p.log.Info("Ending a Pod that the API no longer has", "pod", pod.Namespace+"/"+pod.Name, "uid", uid)
		workers = append(workers, newWorker(p.shared, pod, true))
	}
	for _, w := range workers {
		p.startLocked(w)
	}
	return nil
}

// leftovers are all Pods of which this machine has a trace.
func (p *pods) leftovers(ctx context.Context) (map[types.UID]*v1.Pod, error) {
	found, err := p.listRuntime(ctx)
	if err != nil {
		return nil, err
	}
	all := map[types.UID]*v1.Pod{}
	for uid, held := range found {
		if p.owns(held) {
			all[uid] = podOf(held)
		}
	}
	onDisk, err := p.volumes.Known()
	if err != nil {
		return nil, err
	}
	remembered, err := p.dirs.remembered()
	if err != nil {
		return nil, err
	}
	for _, uid := range append(onDisk, remembered...) {
		if all[uid] == nil {
			all[uid] = podOf(runtime.Pod{UID: uid})
		}
		if kept, err := loadPod(p.dirs.object(uid)); err == nil && kept.UID == uid {
			all[uid] = kept
		}
	}
	return all, nil
}

// listRuntime waits for the runtime: nothing can be said of Pods without it.
func (p *pods) listRuntime(ctx context.Context) (map[types.UID]runtime.Pod, error) {
	for {
		found, info, err := p.askRuntime(ctx)
		if err == nil {
			p.runtimeName = info.Name
			return found, nil
		}
		p.log.Warn("Listing the runtime failed, will retry", "err", err)
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-p.clock.After(time.Second):
		}
	}
}

func (p *pods) askRuntime(ctx context.Context) (map[types.UID]runtime.Pod, runtime.Info, error) {
	info, err := p.runtime.Info(ctx)
	if err != nil {
		return nil, info, err
	}
	found, err := p.runtime.List(ctx)
	return found, info, err
}

// owns says that this agent, or an earlier one of the same root, made the Pod.
func (p *pods) owns(held runtime.Pod) bool {
	for _, s := range held.Sandboxes {
		if s.Annotations[ownerAnnotation] == p.dirs.root {
			return true
		}
	}
	return false
}

// podOf is a Pod object made of what the runtime knows, enough to end it.
func podOf(held runtime.Pod) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: held.UID, Namespace: held.Namespace, Name: held.Name}}
	named := map[string]bool{}
	for _, c := range held.Containers {
		if !named[c.Name] {
			named[c.Name] = true
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
		}
	}
	return pod
}
