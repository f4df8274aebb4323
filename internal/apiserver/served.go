package apiserver

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
	admissionregistrationrest "k8s.io/kubernetes/pkg/registry/admissionregistration/rest"
	appsrest "k8s.io/kubernetes/pkg/registry/apps/rest"
	authenticationrest "k8s.io/kubernetes/pkg/registry/authentication/rest"
	authorizationrest "k8s.io/kubernetes/pkg/registry/authorization/rest"
	certificatesrest "k8s.io/kubernetes/pkg/registry/certificates/rest"
	coordinationrest "k8s.io/kubernetes/pkg/registry/coordination/rest"
	discoveryrest "k8s.io/kubernetes/pkg/registry/discovery/rest"
	eventsrest "k8s.io/kubernetes/pkg/registry/events/rest"
	flowcontrolrest "k8s.io/kubernetes/pkg/registry/flowcontrol/rest"
	networkingrest "k8s.io/kubernetes/pkg/registry/networking/rest"
	noderest "k8s.io/kubernetes/pkg/registry/node/rest"
	policyrest "k8s.io/kubernetes/pkg/registry/policy/rest"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
	storagerest "k8s.io/kubernetes/pkg/registry/storage/rest"

	"k8s.io/client-go/kubernetes"
	_ "k8s.io/kubernetes/pkg/apis/admission/install"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// servedVersions are the group versions of the API, most used first: where two
// groups have a resource of one name (events), kubectl takes the first.
var servedVersions = []schema.GroupVersion{
	corev1.SchemeGroupVersion,
	appsv1.SchemeGroupVersion,
	eventsv1.SchemeGroupVersion,
	authenticationv1.SchemeGroupVersion,
	authorizationv1.SchemeGroupVersion,
	certificatesv1.SchemeGroupVersion,
	networkingv1.SchemeGroupVersion,
	policyv1.SchemeGroupVersion,
	rbacv1.SchemeGroupVersion,
	storagev1.SchemeGroupVersion,
	admissionregistrationv1.SchemeGroupVersion,
	schedulingv1.SchemeGroupVersion,
	coordinationv1.SchemeGroupVersion,
	nodev1.SchemeGroupVersion,
	discoveryv1.SchemeGroupVersion,
	flowcontrolv1.SchemeGroupVersion,
}

// unserved are the kinds of those versions that nothing here would act on. They
// are left out, so that whoever applies one is told at once.
var unserved = []schema.GroupVersionResource{
	corev1.SchemeGroupVersion.WithResource("replicationcontrollers"),
	corev1.SchemeGroupVersion.WithResource("componentstatuses"),
	appsv1.SchemeGroupVersion.WithResource("deployments"),
	appsv1.SchemeGroupVersion.WithResource("replicasets"),
	appsv1.SchemeGroupVersion.WithResource("statefulsets"),
	certificatesv1.SchemeGroupVersion.WithResource("clustertrustbundles"),
	certificatesv1.SchemeGroupVersion.WithResource("podcertificaterequests"),
	networkingv1.SchemeGroupVersion.WithResource("ingresses"),
	networkingv1.SchemeGroupVersion.WithResource("ingressclasses"),
	networkingv1.SchemeGroupVersion.WithResource("networkpolicies"),
	storagev1.SchemeGroupVersion.WithResource("csinodes"),
	storagev1.SchemeGroupVersion.WithResource("csistoragecapacities"),
	storagev1.SchemeGroupVersion.WithResource("volumeattributesclasses"),
}

// unservedCore are the subresources of core/v1 that nothing here would act on: a
// running container's resources cannot be changed yet.
var unservedCore = []string{"pods/resize"}

// resourceConfig says which kinds are served.
func resourceConfig() *serverstorage.ResourceConfig {
	c := serverstorage.NewResourceConfig()
	c.EnableVersions(servedVersions...)
	c.DisableResources(unserved...)
	return c
}

// storageProviders are the groups' stores, in the order of discovery.
func storageProviders(c controlplane.CompletedConfig, s *settings, client kubernetes.Interface) ([]controlplane.RESTStorageProvider, error) {
	core, err := coreProvider(c, s)
	if err != nil {
		return nil, err
	}
	authorizer := c.Generic.Authorization.Authorizer
	return []controlplane.RESTStorageProvider{
		core,
		appsrest.StorageProvider{},
		eventsrest.RESTStorageProvider{TTL: c.EventTTL},
		authenticationrest.RESTStorageProvider{
			Authenticator: c.Generic.Authentication.Authenticator,
			APIAudiences:  c.Generic.Authentication.APIAudiences,
		},
		authorizationrest.RESTStorageProvider{Authorizer: authorizer, RuleResolver: c.Generic.RuleResolver},
		certificatesrest.RESTStorageProvider{Authorizer: authorizer},
		networkingrest.RESTStorageProvider{},
		policyrest.RESTStorageProvider{},
		rolesProvider{rbacrest.RESTStorageProvider{Authorizer: authorizer}},
		storagerest.RESTStorageProvider{},
		admissionregistrationrest.RESTStorageProvider{Authorizer: authorizer, DiscoveryClient: client.Discovery()},
		prioritiesProvider{schedulingrest.RESTStorageProvider{}},
		coordinationrest.RESTStorageProvider{},
		noderest.RESTStorageProvider{},
		discoveryrest.StorageProvider{},
		flowcontrolrest.RESTStorageProvider{InformerFactory: c.Generic.SharedInformerFactory},
	}, nil
}
