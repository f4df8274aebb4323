package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"muster.dev/muster/internal/agent/spec"
	"muster.dev/muster/internal/runtime"
	"muster.dev/muster/internal/runtime/cri"
)

// floor runs Pods on the cluster's own containerd with nothing above it: the same
// sandbox and containers that the agent would make, one after the other, each
// init step as soon as containerd shows the end of the one before.
//
// The agent leaves them alone, since they lack its mark.
type floor struct {
	client *cri.Client
	node   spec.Node
	events <-chan runtime.Event
	stop   context.CancelFunc
}

func newFloor(ctx context.Context, c *cluster) (*floor, error) {
	client, err := cri.New(cri.Options{Endpoint: "unix://" + c.socket()})
	if err != nil {
		return nil, err
	}
	f := &floor{client: client, node: spec.Node{Hostname: "node-1", LogRoot: c.logs}}
	if f.node.CgroupRoot, err = podCgroup(c); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	ctx, f.stop = context.WithCancel(ctx)
	f.events = client.Events(ctx)
	return f, nil
}

// close ends the connection, after the events.
func (f *floor) close() error {
	f.stop()
	for range f.events {
	}
	return f.client.Close()
}

// podCgroup is where the cluster's Pods have their cgroups: beside its containerd's.
// Empty, the runtime's own choice, where cgroups are systemd's to give.
func podCgroup(c *cluster) (string, error) {
	pid, err := c.containerdPID()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	_, path, _ := strings.Cut(strings.TrimSpace(string(text)), ":/muster-")
	path, _, _ = strings.Cut(path, "\n")
	if path == "" {
		return "", nil
	}
	return filepath.Join("/muster-"+filepath.Dir(path), "pods"), nil
}

// run makes the Pod, takes it away again, and returns how long it took until its
// app ran and what its containers did.
func (f *floor) run(ctx context.Context, pod *v1.Pod) (time.Duration, runtime.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pod = pod.DeepCopy()
	pod.UID = uuid.NewUUID()
	began := time.Now()
	ran, err := f.steps(ctx, pod)
	took := time.Since(began)
	if err != nil {
		return 0, ran, err
	}
	return took, ran, f.remove(ctx, ran)
}

func (f *floor) steps(ctx context.Context, pod *v1.Pod) (ran runtime.Pod, err error) {
	sandbox, err := spec.Sandbox(spec.PodInput{Pod: pod, Node: f.node})
	if err != nil {
		return ran, err
	}
	if err := os.MkdirAll(sandbox.LogDirectory, 0o755); err != nil {
		return ran, err
	}
	id, err := f.client.RunSandbox(ctx, sandbox, "")
	if err != nil {
		return ran, err
	}
	until := runtime.Exited
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if container.Name == pod.Spec.Containers[0].Name {
			until = runtime.Running
		}
		made, err := f.start(ctx, pod, &container, id)
		if err != nil {
			return ran, err
		}
		if ran, err = f.await(ctx, pod.UID, made, until); err != nil {
			return ran, err
		}
	}
	return ran, nil
}

func (f *floor) start(ctx context.Context, pod *v1.Pod, container *v1.Container, sandboxID string) (string, error) {
	image, err := f.client.Image(ctx, container.Image)
	if err != nil {
		return "", err
	}
	if image == nil {
		return "", fmt.Errorf("image %s is not on the node", container.Image)
	}
	sandbox, err := spec.Sandbox(spec.PodInput{Pod: pod, Node: f.node})
	if err != nil {
		return "", err
	}
	config, err := spec.Container(spec.ContainerInput{Pod: pod, Container: container, Node: f.node, ImageRef: image.ID})
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(sandbox.LogDirectory, container.Name), 0o755); err != nil {
		return "", err
	}
	id, err := f.client.CreateContainer(ctx, sandboxID, config, sandbox)
	if err != nil {
		return "", err
	}
	return id, f.client.StartContainer(ctx, id)
}

// await reads the Pod, again upon each event, until a container has come so far.
func (f *floor) await(ctx context.Context, uid types.UID, id string, state runtime.State) (runtime.Pod, error) {
	for {
		pod, err := f.client.Pod(ctx, uid)
		if err != nil {
			return pod, err
		}
		for _, c := range pod.Containers {
			if c.ID == id && c.State == state {
				return pod, nil
			}
		}
		for heard := false; !heard; {
			select {
			case event := <-f.events:
				heard = event.PodUID == uid || event.PodUID == ""
			case <-ctx.Done():
				return pod, fmt.Errorf("waiting for container %s: %w", id, ctx.Err())
			}
		}
	}
}

// remove takes the Pod away.
func (f *floor) remove(ctx context.Context, pod runtime.Pod) error {
	for _, c := range pod.Containers {
		if err := f.client.StopContainer(ctx, c.ID, time.Second); err != nil {
			return err
		}
	}
	for _, s := range pod.Sandboxes {
		if err := errors.Join(f.client.StopSandbox(ctx, s.ID), f.client.RemoveSandbox(ctx, s.ID)); err != nil {
			return err
		}
	}
	return nil
}

// gaps are the times between the end of each of the Pod's containers and the
// start of the next, as the runtime recorded them.
func gaps(pod runtime.Pod) (all []time.Duration) {
	for i := 1; i < len(pod.Containers); i++ {
		all = append(all, pod.Containers[i].StartedAt.Sub(pod.Containers[i-1].FinishedAt))
	}
	return all
}
