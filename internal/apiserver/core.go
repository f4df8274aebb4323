package apiserver

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
	kubeletclient "k8s.io/kubernetes/pkg/kubelet/client"
	corerest "k8s.io/kubernetes/pkg/registry/core/rest"

	"muster.dev/muster/internal/pki"
)

const (
	// agentPort is where an agent listens unless its node says otherwise.
	agentPort = 10250
	// agentTimeout bounds a call to an agent that does not stream.
	agentTimeout = 5 * time.Second
	// repairInterval is how often Service addresses and ports are checked against
	// what is allocated. The first check is at the start, so that allocations
	// survive a restart.
	repairInterval = 3 * time.Minute
	// firstNodePort and nodePorts are the range of node ports.
	firstNodePort, nodePorts = 30000, 2768
)

// coreProvider is the store of core/v1: Pods with their subresources, nodes,
// Services and their allocators, service accounts and tokens.
func coreProvider(c controlplane.CompletedConfig, s *settings) (controlplane.RESTStorageProvider, error) {
	agents, err := agentConnection(s.PKI)
	if err != nil {
		return nil, err
	}
	authorizer := c.Generic.Authorization.Authorizer
	provider, err := corerest.New(corerest.Config{
		GenericConfig: *c.NewCoreGenericConfig(),
		Proxy:         corerest.ProxyConfig{Transport: c.ProxyTransport, KubeletClientConfig: agents},
		Services: corerest.ServicesConfig{
			ClusterIPRange:   *s.serviceCIDR,
			NodePortRange:    utilnet.PortRange{Base: firstNodePort, Size: nodePorts},
			IPRepairInterval: repairInterval,
		},
		EndpointSliceGetter: c.EndpointSliceGetter,
		Authorizer:          authorizer,
	}, authorizer)
	if err != nil {
		return nil, err
	}
	return reducedProvider{provider}, nil
}

// reducedProvider leaves out the subresources that nothing would act on.
type reducedProvider struct {
	controlplane.RESTStorageProvider
}

func (p reducedProvider) NewRESTStorage(served serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	group, err := p.RESTStorageProvider.NewRESTStorage(served, options)
	if err != nil {
		return group, err
	}
	for _, resource := range unservedCore {
		delete(group.VersionedResourcesStorageMap[corev1.SchemeGroupVersion.Version], resource)
	}
	return group, nil
}

// agentConnection is how logs, exec and port-forward reach a node's agent: it
// must show a certificate of the cluster, and so does the API server.
func agentConnection(p *pki.PKI) (kubeletclient.KubeletClientConfig, error) {
	pair, err := p.APIServerToNode()
	if err != nil {
		return kubeletclient.KubeletClientConfig{}, err
	}
	return kubeletclient.KubeletClientConfig{
		Port: agentPort,
		PreferredAddressTypes: []string{
			string(corev1.NodeInternalIP), string(corev1.NodeHostName), string(corev1.NodeExternalIP),
		},
		TLSClientConfig: kubeletclient.KubeletTLSConfig{
			CertFile: pair.CertFile, KeyFile: pair.KeyFile, CAFile: p.Server.CertFile,
		},
		HTTPTimeout: agentTimeout,
	}, nil
}
