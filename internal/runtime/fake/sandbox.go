package fake

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"muster.dev/muster/internal/runtime"
)

type sandbox struct {
	id        string
	config    *cri.PodSandboxConfig
	ready     bool
	createdAt time.Time
	address   netip.Addr // invalid for host-network Pods and when freed
}

func (s *sandbox) pod() types.UID {
	return types.UID(s.config.GetLabels()[kubelettypes.KubernetesPodUIDLabel])
}

func (s *sandbox) hostNetwork() bool {
	return s.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == cri.NamespaceMode_NODE
}

// RunSandbox creates and starts a Pod's sandbox.
func (r *Runtime) RunSandbox(ctx context.Context, config *cri.PodSandboxConfig, handler string) (string, error) {
	doing := "running sandbox for " + config.GetMetadata().GetName()
	if handler != "" {
		return "", fmt.Errorf("%s: no runtime for handler %q is configured", doing, handler)
	}
	if err := r.enter(ctx, doing); err != nil {
		return "", err
	}
	script := r.script
	r.mu.Unlock()
	delay, refusal := script.sandbox(config)
	if err := r.wait(ctx, delay); err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	if refusal != nil {
		return "", fmt.Errorf("%s: %w", doing, refusal)
	}
	if err := r.enter(ctx, doing); err != nil {
		return "", err
	}
	defer r.mu.Unlock()
	for _, other := range r.sandboxes {
		if m, n := other.config.GetMetadata(), config.GetMetadata(); m.GetUid() == n.GetUid() && m.GetAttempt() == n.GetAttempt() {
			return "", fmt.Errorf("%s: the name of attempt %d is reserved for %s", doing, n.GetAttempt(), other.id)
		}
	}
	s := &sandbox{id: r.newIDLocked(), config: proto.CloneOf(config), ready: true, createdAt: r.clock.Now()}
	if !s.hostNetwork() {
		var err error
		if s.address, err = r.addresses.take(); err != nil {
			return "", fmt.Errorf("%s: %w", doing, err)
		}
	}
	r.sandboxes[s.id] = s
	r.announceLocked(s.pod(), s.id)
	return s.id, nil
}

// StopSandbox ends every container of the sandbox and frees its address.
func (r *Runtime) StopSandbox(ctx context.Context, id string) error {
	if err := r.enter(ctx, "stopping sandbox "+id); err != nil {
		return err
	}
	defer r.mu.Unlock()
	if s, ok := r.sandboxes[id]; ok {
		r.stopSandboxLocked(s)
	}
	return nil
}

func (r *Runtime) stopSandboxLocked(s *sandbox) {
	for _, c := range r.containersOfLocked(s.id) {
		r.endLocked(c, killed, "")
	}
	if s.address.IsValid() {
		r.addresses.free(s.address)
		s.address = netip.Addr{}
	}
	if s.ready {
		s.ready = false
		r.announceLocked(s.pod(), s.id)
	}
}

// RemoveSandbox forgets a sandbox and its containers, stopping them first.
func (r *Runtime) RemoveSandbox(ctx context.Context, id string) error {
	if err := r.enter(ctx, "removing sandbox "+id); err != nil {
		return err
	}
	defer r.mu.Unlock()
	s, ok := r.sandboxes[id]
	if !ok {
		return nil
	}
	r.stopSandboxLocked(s)
	for _, c := range r.containersOfLocked(id) {
		delete(r.containers, c.id)
	}
	delete(r.sandboxes, id)
	r.announceLocked(s.pod(), id)
	return nil
}

// containersOfLocked are a sandbox's containers in the order of their making, so
// that a simulation always goes the same way.
func (r *Runtime) containersOfLocked(sandboxID string) []*container {
	var all []*container
	for _, c := range r.containers {
		if c.sandbox.id == sandboxID {
			all = append(all, c)
		}
	}
	sortByID(all)
	return all
}

func (s *sandbox) observed() runtime.Sandbox {
	o := runtime.Sandbox{
		ID:          s.id,
		Attempt:     s.config.GetMetadata().GetAttempt(),
		Ready:       s.ready,
		CreatedAt:   s.createdAt,
		HostNetwork: s.hostNetwork(),
		Labels:      s.config.GetLabels(),
		Annotations: s.config.GetAnnotations(),
	}
	if s.address.IsValid() {
		o.IPs = []string{s.address.String()}
	}
	return o
}

// addresses allots Pod addresses: the lowest never used, then those given back
// longest ago, so that an address does not come back at once.
type addresses struct {
	prefix netip.Prefix
	next   netip.Addr
	freed  []netip.Addr
}

func newAddresses(prefix netip.Prefix) addresses {
	prefix = prefix.Masked()
	return addresses{prefix: prefix, next: prefix.Addr().Next().Next()} // after the network's and the gateway's
}

func (a *addresses) take() (netip.Addr, error) {
	if a.prefix.Contains(a.next) {
		taken := a.next
		a.next = a.next.Next()
		return taken, nil
	}
	if len(a.freed) == 0 {
		return netip.Addr{}, fmt.Errorf("no IP addresses available in %s", a.prefix)
	}
	taken := a.freed[0]
	a.freed = a.freed[1:]
	return taken, nil
}

func (a *addresses) free(address netip.Addr) { a.freed = append(a.freed, address) }
