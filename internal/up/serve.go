package up

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"muster.dev/muster/internal/agent"
	"muster.dev/muster/internal/control"
	"muster.dev/muster/internal/control/stock"
)

// serve runs the loops and the agent until ctx ends or one of them fails, and
// returns when all have ended: the API server they speak to outlives them.
func (m *machine) serve(ctx context.Context, progress Progress) error {
	config, err := m.agentConfig()
	if err != nil {
		return fmt.Errorf("preparing the agent: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return control.Run(ctx, control.Config{Client: m.server.Client()}) })
	group.Go(func() error { return stock.Run(ctx, stock.Config{Client: m.server.Client(), PKI: m.pki}) })
	group.Go(func() error { return agent.Run(ctx, config) })
	group.Go(func() error { return m.keepContainerd(ctx) })
	group.Go(func() error { return m.watchServer(ctx) })
	group.Go(func() error { return m.announceReady(ctx, progress) })
	return group.Wait()
}

// watchServer fails when the API server ends by itself.
func (m *machine) watchServer(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-m.server.Done():
		return errors.New("the API server ended by itself")
	}
}

// announceReady waits for the node to be Ready and says what to do next.
func (m *machine) announceReady(ctx context.Context, progress Progress) error {
	began := time.Now().Truncate(time.Second) // as precise as a heartbeat
	progress.Say("waiting for node " + m.config.NodeName + " to be Ready")
	client, err := kubernetes.NewForConfig(m.server.Client())
	if err != nil {
		return fmt.Errorf("watching the node: %w", err)
	}
	one := fields.OneTermEqualSelector(metav1.ObjectNameField, m.config.NodeName)
	list := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "nodes", "", one)
	_, err = watchtools.UntilWithSync(ctx, list, &v1.Node{}, nil, func(event watch.Event) (bool, error) {
		node, ok := event.Object.(*v1.Node)
		return ok && schedulable(node, began), nil
	})
	if err != nil {
		return unlessEnded(ctx, fmt.Errorf("waiting for the node to be Ready: %w", err))
	}
	progress.Say(fmt.Sprintf("node %s is Ready\nkubeconfig: %s (context muster)\nnext: muster kubectl --kubeconfig %s get nodes",
		m.config.NodeName, m.config.Kubeconfig(), m.config.Kubeconfig()))
	progress.Ready()
	return nil
}

// schedulable says that Pods bind to the node from now on: it is Ready, and the
// control plane has taken the not-ready taint off. What an agent said before
// since, in an earlier run, does not count.
func schedulable(node *v1.Node, since time.Time) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == v1.TaintNodeNotReady || taint.Key == v1.TaintNodeUnreachable {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady {
			return condition.Status == v1.ConditionTrue && !condition.LastHeartbeatTime.Time.Before(since)
		}
	}
	return false
}

// agentConfig gives the agent its node's own credentials: it reaches the API
// server as any other node would.
func (m *machine) agentConfig() (agent.Config, error) {
	login, err := m.pki.AgentClient(m.config.NodeName)
	if err != nil {
		return agent.Config{}, err
	}
	serving, err := m.pki.AgentServer(m.config.NodeName, []net.IP{m.address, net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return agent.Config{}, err
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(m.server.URL, "https://"))
	if err != nil {
		return agent.Config{}, fmt.Errorf("reading the API server's address %s: %w", m.server.URL, err)
	}
	apiPort, err := strconv.Atoi(port)
	if err != nil {
		return agent.Config{}, fmt.Errorf("reading the API server's port %s: %w", port, err)
	}
	return agent.Config{
		NodeName: m.config.NodeName, NodeIPs: []net.IP{m.address},
		Client: &rest.Config{
			Host: m.server.URL,
			TLSClientConfig: rest.TLSClientConfig{
				CAFile: m.pki.Server.CertFile, CertFile: login.CertFile, KeyFile: login.KeyFile,
			},
		},
		Runtime: m.runtime,
		RootDir: m.config.path("agent"), PodLogsDir: m.config.PodLogsDir, ContainerLogsDir: m.config.ContainerLogsDir,
		Endpoint:     agent.Endpoint{Listen: m.config.agentListen(), CertFile: serving.CertFile, KeyFile: serving.KeyFile, ClientCAFile: m.pki.Client.CertFile},
		CgroupParent: m.containerd.CgroupParent(), CgroupDriver: m.containerd.CgroupDriver(),
		APIHost: m.address.String(), APIPort: apiPort,
		Labels: m.config.Labels,
	}, nil
}
