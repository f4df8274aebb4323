package apiserver

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes"
	api "k8s.io/kubernetes/pkg/apis/core"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/controller/defaultservicecidr"
	"k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
)

const (
	// endpointInterval is how often the server renews its address behind the
	// Service; endpointTTL is how long it stays there after the server has died.
	endpointInterval = 10 * time.Second
	endpointTTL      = 15 * time.Second
	// servicePort is the port of the Service "kubernetes".
	servicePort = 443
)

// addServiceHooks makes the range of Service addresses and the Service
// "kubernetes" when the server starts, and takes its address out of it when the
// server stops.
func addServiceHooks(server *genericapiserver.GenericAPIServer, c controlplane.CompletedConfig, s *settings, client kubernetes.Interface) error {
	reconciler, err := endpointReconciler(c, s.Advertise, client)
	if err != nil {
		return err
	}
	service := kubernetesservice.New(kubernetesservice.Config{
		PublicIP:           s.Advertise,
		EndpointReconciler: reconciler,
		EndpointInterval:   endpointInterval,
		ServiceIP:          s.serviceIP,
		ServicePort:        servicePort,
		PublicServicePort:  s.port,
	}, client, c.VersionedInformers.Core().V1().Services())
	ranges := defaultservicecidr.NewController(*s.serviceCIDR, net.IPNet{}, client)

	server.AddPostStartHookOrDie("kubernetes-service", func(hook genericapiserver.PostStartHookContext) error {
		service.Start(hook.Done())
		return nil
	})
	server.AddPreShutdownHookOrDie("kubernetes-service", func() error {
		service.Stop()
		return nil
	})
	server.AddPostStartHookOrDie("service-range", func(hook genericapiserver.PostStartHookContext) error {
		ranges.Start(hook)
		return nil
	})
	return nil
}

// endpointReconciler puts this server's address behind the Service. A loopback
// address cannot stand there: Kubernetes' validation refuses it, and no Pod could
// use it. The Service then has no endpoint, which is the truth.
func endpointReconciler(c controlplane.CompletedConfig, ip net.IP, client kubernetes.Interface) (reconcilers.EndpointReconciler, error) {
	if ip.IsLoopback() {
		return &noEndpoint{EndpointReconciler: reconcilers.NewNoneEndpointReconciler()}, nil
	}
	config, err := c.StorageFactory.NewConfig(api.Resource("apiServerIPInfo"), &api.Endpoints{})
	if err != nil {
		return nil, fmt.Errorf("preparing the store of server addresses: %w", err)
	}
	leases, err := reconcilers.NewLeases(config, "/masterleases/", endpointTTL)
	if err != nil {
		return nil, fmt.Errorf("opening the store of server addresses: %w", err)
	}
	endpoints := reconcilers.NewEndpointsAdapter(client.CoreV1(), client.DiscoveryV1())
	r := reconcilers.NewLeaseEndpointReconciler(endpoints, leases)
	if err := r.ValidateIP(ip); err != nil {
		return nil, fmt.Errorf("advertising %s: %w", ip, err)
	}
	return r, nil
}

// noEndpoint keeps the Service without endpoints.
type noEndpoint struct {
	reconcilers.EndpointReconciler
	stopping atomic.Bool
}

func (r *noEndpoint) StopReconciling() { r.stopping.Store(true) }

// RemoveEndpoints finds none left by an earlier server, and has none to remove
// when this one stops.
func (r *noEndpoint) RemoveEndpoints(service string, _ net.IP, _ []corev1.EndpointPort) error {
	if r.stopping.Load() {
		return nil
	}
	return storage.NewKeyNotFoundError(service, 0)
}
