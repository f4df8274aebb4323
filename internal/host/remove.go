package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// gracePeriod is the annotation that says how many seconds a container's Pod is
// given to end.
const gracePeriod = "io.kubernetes.pod.terminationGracePeriod"

// defaultGrace is Kubernetes' default for it.
const defaultGrace = 30 * time.Second

// Remove stops every Pod with its grace and takes back what Start made:
// containerd, its shims, mounts, network namespaces, the bridge, iptables rules
// and cgroups. What the API server keeps, and the images, stay; with purge the
// whole data directory and the Pods' logs go too.
//
// It works from names alone, so it does not matter what is already gone or how
// the last process ended; a step that fails does not keep the others from being
// done, and calling it again goes on. The control plane and agent of the data
// directory must have ended.
func Remove(ctx context.Context, options Options, purge bool) error {
	options, err := options.withDefaults()
	if err != nil {
		return err
	}
	l := newLayout(options.DataDir)
	if exists(l.dir) {
		unlock, err := lockFile(ctx, l.lock)
		if err != nil {
			return err
		}
		defer unlock()
	}
	all, err := hierarchies()
	if err != nil {
		return err
	}
	tops := cgroupTops(l, all)
	var failed []error
	uids := podsOnDisk(options.PodsDir)
	if len(inCgroups(tops)) > 0 {
		stopped, err := stopPods(ctx, l, options)
		uids = append(uids, stopped...)
		if err != nil {
			options.Progress(fmt.Sprintf("Pods do not end by themselves (%v), killing them", err))
		}
	}
	failed = append(failed,
		endContainerd(ctx, l), endShims(ctx, l), killCgroups(ctx, tops),
		unmountBelow(l.data), removeShimSockets(l),
		removeNetwork(ctx, l), removeCgroups(tops),
		removeTree(l.state), removeFiles(l.record, l.socket, l.socket+".ttrpc", l.config))
	if purge {
		failed = append(failed, removeLogs(options, uids))
		if options.PodsDir != "" {
			failed = append(failed, removeTree(options.PodsDir))
		}
		failed = append(failed, removeTree(l.data))
	}
	return errors.Join(failed...)
}

// stopPods stops and removes every Pod through the runtime, starting it again if
// it died and its containers live on. It returns the UIDs of the Pods it saw.
func stopPods(ctx context.Context, l layout, options Options) ([]string, error) {
	c := &Containerd{layout: l, options: options, process: readProcess(l.record)}
	if !c.process.running() {
		tools := findTools(l.data)
		if missing := tools.missing(); missing != nil {
			return nil, missing
		}
		if _, err := c.run(ctx, tools, tools.settings(l)); err != nil {
			return nil, err
		}
	} else if err := c.connect(ctx, 10*time.Second); err != nil {
		return nil, err
	}
	uids, err := c.stopAll(ctx)
	return uids, errors.Join(err, c.Close())
}

func (c *Containerd) stopAll(ctx context.Context) ([]string, error) {
	client := cri.NewRuntimeServiceClient(c.conn)
	sandboxes, err := client.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	containers, err := client.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", err)
	}
	if len(sandboxes.Items) > 0 {
		c.options.Progress(fmt.Sprintf("stopping %d Pods", len(sandboxes.Items)))
	}
	var stops errgroup.Group // one Pod's long grace does not delay the others' end
	for _, one := range containers.Containers {
		stops.Go(func() error { return stopContainer(ctx, client, one, c.options.StopTimeout) })
	}
	failed := []error{stops.Wait()}
	var uids []string
	for _, sandbox := range sandboxes.Items {
		uids = append(uids, sandbox.GetMetadata().GetUid())
		failed = append(failed, removeSandbox(ctx, client, sandbox.Id))
	}
	return uids, errors.Join(failed...)
}

func stopContainer(ctx context.Context, client cri.RuntimeServiceClient, one *cri.Container, limit time.Duration) error {
	if one.State != cri.ContainerState_CONTAINER_RUNNING {
		return nil
	}
	grace := defaultGrace
	if seconds, err := strconv.ParseInt(one.Annotations[gracePeriod], 10, 32); err == nil {
		grace = time.Duration(seconds) * time.Second
	}
	if limit > 0 {
		grace = min(grace, limit)
	}
	ctx, cancel := context.WithTimeout(ctx, grace+30*time.Second)
	defer cancel()
	_, err := client.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: one.Id, Timeout: int64(grace / time.Second)})
	if err != nil {
		return fmt.Errorf("stopping container %s: %w", one.GetMetadata().GetName(), err)
	}
	return nil
}

func removeSandbox(ctx context.Context, client cri.RuntimeServiceClient, id string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := client.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id}, grpc.WaitForReady(true)); err != nil {
		return fmt.Errorf("stopping sandbox %s: %w", id, err)
	}
	if _, err := client.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
		return fmt.Errorf("removing sandbox %s: %w", id, err)
	}
	return nil
}

// endShims ends the containers' keepers that belong to our containerd: each
// carries its address among its arguments.
func endShims(ctx context.Context, l layout) error {
	found, err := withArgument(l.socket)
	if err != nil {
		return err
	}
	for _, p := range found {
		if !p.isProgram("containerd-shim") {
			continue
		}
		if err := p.end(ctx, 2*time.Second); err != nil {
			return fmt.Errorf("ending a containerd shim: %w", err)
		}
	}
	return nil
}

// removeShimSockets removes the sockets that shims leave when they are killed.
// They stand in one folder for every containerd of the machine; each bundle says
// which is its own.
func removeShimSockets(l layout) error {
	bundles, err := filepath.Glob(filepath.Join(l.state, "io.containerd.runtime.v2.task", "*", "*", "address"))
	if err != nil {
		return fmt.Errorf("listing shims: %w", err)
	}
	var failed []error
	for _, file := range bundles {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // removed by its shim just now
		}
		if socket, found := strings.CutPrefix(strings.TrimSpace(string(text)), "unix://"); found {
			failed = append(failed, removeFiles(socket))
		}
	}
	removeIfEmpty("/run/containerd/s", "/run/containerd")
	return errors.Join(failed...)
}

// podsOnDisk lists the UIDs of the Pods the agent keeps folders for.
func podsOnDisk(dir string) []string {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // never made, or gone already
	}
	var uids []string
	for _, entry := range entries {
		uids = append(uids, entry.Name())
	}
	return uids
}

// removeLogs removes the log folders of these Pods, NAMESPACE_NAME_UID, and the
// links to logs in them. The folders around them are the machine's: even empty,
// another agent may count on them or have them mounted.
func removeLogs(o Options, uids []string) error {
	var failed []error
	for _, uid := range uids {
		dirs, err := filepath.Glob(filepath.Join(o.PodLogsDir, "*_*_"+uid))
		if uid == "" || err != nil {
			continue
		}
		for _, dir := range dirs {
			links, err := filepath.Glob(filepath.Join(o.ContainerLogsDir, "*.log"))
			failed = append(failed, err)
			for _, link := range links {
				if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dir+"/") {
					failed = append(failed, removeFiles(link))
				}
			}
			failed = append(failed, removeTree(dir))
		}
	}
	return errors.Join(failed...)
}

func removeFiles(names ...string) error {
	var failed []error
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = append(failed, fmt.Errorf("removing %s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}
