package apiserver

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

// hooks watches over what has to happen before the server is ready. The libraries
// end the process when a start hook fails; here a failure becomes the error that
// Start returns, so that whoever started the server can take down the rest.
type hooks struct {
	failed chan error // the first failure; room for one
}

func newHooks() *hooks { return &hooks{failed: make(chan error, 1)} }

// guard reports a hook's failure and keeps the server from becoming ready, until
// it is stopped.
func (h *hooks) guard(name string, hook genericapiserver.PostStartHookFunc) genericapiserver.PostStartHookFunc {
	return func(c genericapiserver.PostStartHookContext) error {
		err := hook(c)
		if err == nil || c.Err() != nil {
			return nil
		}
		select {
		case h.failed <- fmt.Errorf("running the start hook %s: %w", name, err):
		default:
		}
		<-c.Done()
		return nil
	}
}

// guardAll guards the hooks that stores bring along, and names only what is served.
func (h *hooks) guardAll(providers []controlplane.RESTStorageProvider) {
	for i, p := range providers {
		providers[i] = servedProvider{p}
		if hooked, ok := p.(genericapiserver.PostStartHookProvider); ok {
			providers[i] = guardedProvider{providers[i], hooked, h}
		}
	}
}

// servedProvider is a store that knows only of the versions of its group that are
// served; the server would warn about each of the others.
type servedProvider struct {
	controlplane.RESTStorageProvider
}

func (p servedProvider) NewRESTStorage(c serverstorage.APIResourceConfigSource, g generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	info, err := p.RESTStorageProvider.NewRESTStorage(c, g)
	info.PrioritizedVersions = slices.DeleteFunc(slices.Clone(info.PrioritizedVersions), func(gv schema.GroupVersion) bool {
		return len(info.VersionedResourcesStorageMap[gv.Version]) == 0
	})
	return info, err
}

// guardedProvider is a store whose start hook is guarded.
type guardedProvider struct {
	controlplane.RESTStorageProvider
	hooked genericapiserver.PostStartHookProvider
	hooks  *hooks
}

func (p guardedProvider) PostStartHook() (string, genericapiserver.PostStartHookFunc, error) {
	name, hook, err := p.hooked.PostStartHook()
	if err != nil {
		return "", nil, err
	}
	return name, p.hooks.guard(name, hook), nil
}
