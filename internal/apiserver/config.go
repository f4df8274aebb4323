package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	aggregator "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/capabilities"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	kubeadmission "k8s.io/kubernetes/pkg/kubeapiserver/admission"
	"k8s.io/kubernetes/plugin/pkg/admission/network/defaultingressclass"
	"k8s.io/kubernetes/plugin/pkg/admission/noderestriction"

	"muster.dev/muster/internal/apiserver/inprocess"
	"muster.dev/muster/internal/pki"
)

const (
	// issuer names who signs service-account tokens, and is their audience.
	issuer = "https://kubernetes.default.svc.cluster.local"
	// watchGrace is how long open watches get to end when the server stops.
	watchGrace = 3 * time.Second
)

// withoutPeers are the features by which several API servers find each other:
// leases renewed every ten seconds, and calls handed on to a server of another
// version. One server does without.
var withoutPeers = map[string]bool{
	string(features.UnknownVersionInteroperabilityProxy): false,
	string(features.APIServerIdentity):                   false,
}

// legacyTokenHook notes since when unbound tokens have been watched for their
// last use, for a controller that does not run here.
const legacyTokenHook = "start-legacy-token-tracking-controller"

// upstreamOptions are Kubernetes' own options for an API server, set as this
// cluster wants them.
func upstreamOptions(s *settings, certificate pki.Pair) (options.CompletedOptions, error) {
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(withoutPeers); err != nil {
		return options.CompletedOptions{}, fmt.Errorf("setting the API server's features: %w", err)
	}
	o := options.NewOptions()
	o.Metrics = nil // there are no metrics to hide or to limit
	o.SystemNamespaces = append(o.SystemNamespaces, corev1.NamespaceNodeLease)
	o.Etcd.StorageConfig.Transport.ServerList = s.Etcd

	o.SecureServing.Listener = s.listener
	o.SecureServing.BindAddress = s.listener.Addr().(*net.TCPAddr).IP
	o.SecureServing.BindPort = s.port
	o.SecureServing.ServerCert.CertKey.CertFile = certificate.CertFile
	o.SecureServing.ServerCert.CertKey.KeyFile = certificate.KeyFile

	o.GenericServerRunOptions.AdvertiseAddress = s.Advertise
	o.GenericServerRunOptions.ExternalHost = net.JoinHostPort(s.Advertise.String(), fmt.Sprint(s.port))
	o.GenericServerRunOptions.ShutdownWatchTerminationGracePeriod = watchGrace

	o.Authentication.Anonymous.Allow = false // withOpenPaths adds the few open paths
	o.Authentication.ClientCert.ClientCA = s.PKI.Client.CertFile
	o.Authentication.ServiceAccounts.Issuers = []string{issuer}
	o.Authentication.ServiceAccounts.KeyFiles = []string{s.PKI.ServiceAccountKeyFile}
	o.ServiceAccountSigningKeyFile = s.PKI.ServiceAccountKeyFile
	o.Authorization = nil // newAuthorizer takes its place

	o.Admission.GenericAdmission.EnablePlugins = []string{noderestriction.PluginName}
	// It would wait for ingress classes, which are not served.
	o.Admission.GenericAdmission.DisablePlugins = []string{defaultingressclass.PluginName}

	completed, err := o.Complete(context.Background(), nil, nil)
	if err != nil {
		return options.CompletedOptions{}, fmt.Errorf("completing the API server's options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return options.CompletedOptions{}, fmt.Errorf("checking the API server's options: %w", utilerrors.NewAggregate(errs))
	}
	return completed, nil
}

// assembly is everything two servers are made from: the one for built-in kinds
// and, behind it, the one for custom kinds.
type assembly struct {
	settings *settings
	options  options.CompletedOptions
	generic  *genericapiserver.Config
	local    *inprocess.Transport
	hooks    *hooks

	builtin *controlplane.Config
	custom  *apiextensions.Config
}

// assemble prepares both servers without starting anything. The end of stopping
// is what they will be told to stop by.
func assemble(stopping context.Context, s *settings) (*assembly, error) {
	certificate, err := s.certificate()
	if err != nil {
		return nil, err
	}
	a := &assembly{settings: s, local: inprocess.New(), hooks: newHooks()}
	if a.options, err = upstreamOptions(s, certificate); err != nil {
		return nil, err
	}
	capabilities.Setup(true, 0) // privileged Pods are admitted; PodSecurity says where
	generic, informers, storage, err := controlplane.BuildGenericConfig(
		a.options, []*runtime.Scheme{legacyscheme.Scheme, apiextensions.Scheme},
		resourceConfig(), generatedopenapi.GetOpenAPIDefinitions, nil)
	if err != nil {
		return nil, fmt.Errorf("preparing the API server: %w", err)
	}
	a.generic = generic
	networkHost := generic.LoopbackClientConfig.Host
	generic.BuildHandlerChainFunc = handlerChain(stopping)
	if err := a.adjust(informers); err != nil {
		return nil, err
	}
	return a, a.configure(informers, storage, networkHost)
}

// adjust changes what the options cannot say.
func (a *assembly) adjust(f informers.SharedInformerFactory) error {
	g := a.generic
	// The OpenAPI of both servers is installed as one, see openapi.go.
	g.SkipOpenAPIInstallation = true
	g.EffectiveVersion = effectiveVersion{g.EffectiveVersion}
	g.DisabledPostStartHooks.Insert(legacyTokenHook)
	g.AddHealthzChecks(a.settings.Health...)
	g.Authentication.Authenticator = withOpenPaths(g.Authentication.Authenticator)
	// From here on the server calls itself without the network.
	g.LoopbackClientConfig = clientConfig(a.local, g.LoopbackClientConfig.Host, g.LoopbackClientConfig.BearerToken)
	var err error
	g.Authorization.Authorizer, g.RuleResolver, err = newAuthorizer(f)
	return err
}

// configure adds admission and the custom kinds.
func (a *assembly) configure(f informers.SharedInformerFactory, storage *serverstorage.DefaultStorageFactory, networkHost string) error {
	initializers, err := (&kubeadmission.Config{}).New()
	if err != nil {
		return fmt.Errorf("preparing admission: %w", err)
	}
	slices, err := proxy.NewEndpointSliceIndexerGetter(f.Discovery().V1().EndpointSlices())
	if err != nil {
		return fmt.Errorf("indexing the endpoint slices: %w", err)
	}
	services, err := serviceResolver(f, slices, networkHost)
	if err != nil {
		return err
	}
	a.builtin, initializers, err = controlplane.CreateConfig(
		a.options, a.generic, f, slices, storage, services, initializers)
	if err != nil {
		return fmt.Errorf("preparing the built-in kinds: %w", err)
	}
	webhooks := webhook.NewDefaultAuthenticationInfoResolverWrapper(
		a.builtin.ProxyTransport, a.generic.EgressSelector, a.generic.LoopbackClientConfig, a.generic.TracerProvider)
	a.custom, err = controlplane.CreateAPIExtensionsConfig(
		*a.generic, f, initializers, a.options, 1, services, webhooks)
	if err != nil {
		return fmt.Errorf("preparing the custom kinds: %w", err)
	}
	return nil
}

// serviceResolver finds the address of a webhook that stands behind a Service.
// It takes one of the Service's endpoints, since nothing may be there to route
// the Service's own address; the API server itself is found at its own address.
func serviceResolver(f informers.SharedInformerFactory, slices proxy.EndpointSliceGetter, self string) (aggregator.ServiceResolver, error) {
	host, err := url.Parse(self)
	if err != nil {
		return nil, fmt.Errorf("reading the server's own address: %w", err)
	}
	byEndpoint := aggregator.NewEndpointServiceResolver(f.Core().V1().Services().Lister(), slices)
	return aggregator.NewLoopbackServiceResolver(byEndpoint, host), nil
}
