package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"muster.dev/muster/internal/agent/probe"
	"muster.dev/muster/internal/agent/spec"
	"muster.dev/muster/internal/agent/volume"
	"muster.dev/muster/internal/runtime"
)

// shared is what all workers of one agent use. Everything in it is safe for
// concurrent use.
type shared struct {
	config      Config
	client      kubernetes.Interface
	runtime     runtime.Runtime
	clock       clock.WithTicker
	log         *slog.Logger
	dirs        dirs
	links       logLinks
	events      *events
	pulls       *images
	volumes     *volume.Manager
	probes      *probe.Manager
	admission   *admission
	hostIPs     []string
	allServices corelisters.ServiceLister
	runtimeName string // set before there are workers
	capacity    v1.ResourceList
}

// nodeSpec is what containers' configurations need to know of the node now.
func (s *shared) nodeSpec() spec.Node {
	node := spec.Node{
		Hostname: s.config.NodeName, HostIPs: s.hostIPs,
		MemoryCapacity: s.capacity.Memory().Value(),
		Allocatable:    s.allocatable(),
		APIHost:        s.config.APIHost,
		ClusterDNS:     s.config.ClusterDNS, ClusterDomain: s.config.ClusterDomain,
		LogRoot:        s.links.pods,
		CgroupRoot:     s.config.CgroupParent,
		SystemdCgroups: s.config.CgroupDriver == "systemd",
		SeccompRoot:    s.config.RootDir + "/seccomp",
	}
	if s.config.APIPort != 0 {
		node.APIPort = strconv.Itoa(s.config.APIPort)
	}
	if name, err := os.Hostname(); err == nil {
		node.Hostname = name
	}
	node.Resolv = resolver("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf")
	if text, err := os.ReadFile("/etc/hosts"); err == nil {
		node.HostsFile = text
	}
	_, err := os.Stat(cgroupRoot + "/cgroup.controllers")
	node.Cgroup2 = err == nil
	return node
}

// resolver is the node's resolver configuration. Where the ordinary file names
// nothing but systemd-resolved's stub, which only the host can reach, the real name
// servers stand in the file behind it.
func resolver(ordinary, behindStub string) *cri.DNSConfig {
	text, err := os.ReadFile(ordinary)
	if err != nil {
		return nil
	}
	config := spec.ParseResolv(string(text))
	stub := func(server string) bool { return server == "127.0.0.53" || server == "127.0.0.54" }
	if len(config.Servers) == 0 || slices.ContainsFunc(config.Servers, func(s string) bool { return !stub(s) }) {
		return config
	}
	if text, err := os.ReadFile(behindStub); err == nil {
		return spec.ParseResolv(string(text))
	}
	return config
}

func (s *shared) allocatable() v1.ResourceList { return allocatable(s.capacity, s.config.Reserved) }

// services are those whose addresses the Pod's containers find in their environment.
func (s *shared) services(pod *v1.Pod) []v1.Service {
	if !ptr.Deref(pod.Spec.EnableServiceLinks, true) {
		return nil
	}
	found, err := s.allServices.Services(pod.Namespace).List(labels.Everything())
	if err != nil {
		s.log.Error("Listing cached services failed", "err", err)
	}
	var list []v1.Service
	for _, service := range found {
		list = append(list, *service)
	}
	return list
}

// runtimeHandler is the runtime's name for the Pod's RuntimeClass.
func (s *shared) runtimeHandler(ctx context.Context, pod *v1.Pod) (string, error) {
	if pod.Spec.RuntimeClassName == nil || *pod.Spec.RuntimeClassName == "" {
		return "", nil
	}
	class, err := s.client.NodeV1().RuntimeClasses().Get(ctx, *pod.Spec.RuntimeClassName, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading RuntimeClass %s: %w", *pod.Spec.RuntimeClassName, err)
	}
	return class.Handler, nil
}
