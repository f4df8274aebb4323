package apiserver

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/version"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
)

const (
	// firstPriority is the discovery priority of the first served group; each one
	// after it stands priorityStep lower, and custom kinds below all of them.
	firstPriority, priorityStep = 18000, 100
	builtinVersionPriority      = 15
)

// orderDiscovery gives the served groups their order in aggregated discovery.
func orderDiscovery(server *genericapiserver.GenericAPIServer) {
	for i, gv := range append(slices.Clone(servedVersions), apiextensionsv1.SchemeGroupVersion) {
		server.AggregatedDiscoveryGroupManager.SetGroupVersionPriority(
			metav1.GroupVersion(gv), firstPriority-i*priorityStep, builtinVersionPriority)
	}
}

// listCustomGroups keeps the groups of custom kinds in the plain list of groups
// (/apis), where only built-in ones would stand otherwise. Aggregated discovery
// has them already.
func listCustomGroups(server *genericapiserver.GenericAPIServer, custom *apiextensions.CustomResourceDefinitions) error {
	server.DiscoveryGroupManager.AddGroup(apiGroup(apiextensionsv1.GroupName, []string{"v1"}))
	crds := custom.Informers.Apiextensions().V1().CustomResourceDefinitions()
	update := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		group := obj.(*apiextensionsv1.CustomResourceDefinition).Spec.Group
		all, err := crds.Lister().List(labels.Everything())
		if err != nil {
			return // a lister over memory has no error to give
		}
		if versions := customVersions(all, group); len(versions) > 0 {
			server.DiscoveryGroupManager.AddGroup(apiGroup(group, versions))
		} else {
			server.DiscoveryGroupManager.RemoveGroup(group)
		}
	}
	_, err := crds.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: update, UpdateFunc: func(_, obj any) { update(obj) }, DeleteFunc: update,
	})
	if err != nil {
		return fmt.Errorf("watching the custom kinds: %w", err)
	}
	return nil
}

// customVersions are the served versions of a group of custom kinds, the
// preferred one first.
func customVersions(all []*apiextensionsv1.CustomResourceDefinition, group string) []string {
	var versions []string
	for _, crd := range all {
		if crd.Spec.Group != group || !established(crd) {
			continue
		}
		for _, v := range crd.Spec.Versions {
			if v.Served && !slices.Contains(versions, v.Name) {
				versions = append(versions, v.Name)
			}
		}
	}
	slices.SortFunc(versions, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	return versions
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// apiGroup describes a group by its versions, the preferred one first.
func apiGroup(name string, versions []string) metav1.APIGroup {
	g := metav1.APIGroup{Name: name}
	for _, v := range versions {
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
	}
	g.PreferredVersion = g.Versions[0]
	return g
}
