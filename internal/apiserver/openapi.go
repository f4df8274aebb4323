package apiserver

import (
	restful "github.com/emicklei/go-restful/v3"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/routes"
)

// installOpenAPI publishes one description of both servers' kinds under
// /openapi/v2 and /openapi/v3, and hands it to the server of custom kinds, which
// adds theirs to it as they come and go.
func installOpenAPI(c *genericapiserver.Config, server *genericapiserver.GenericAPIServer, custom *apiextensions.CustomResourceDefinitions) {
	both := restful.NewContainer()
	for _, s := range []*genericapiserver.GenericAPIServer{server, custom.GenericAPIServer} {
		for _, service := range s.Handler.GoRestfulContainer.RegisteredWebServices() {
			if !registered(both, service) {
				both.Add(service)
			}
		}
	}
	openapi := routes.OpenAPI{Config: c.OpenAPIConfig, V3Config: c.OpenAPIV3Config}
	mux := server.Handler.NonGoRestfulMux
	shared := custom.GenericAPIServer
	shared.OpenAPIVersionedService, shared.StaticOpenAPISpec = openapi.InstallV2(both, mux)
	shared.OpenAPIV3VersionedService = openapi.InstallV3(both, mux)
}

// registered says whether a container has a web service for the same path: both
// servers bring some (/version), and a container takes one only once.
func registered(c *restful.Container, service *restful.WebService) bool {
	for _, s := range c.RegisteredWebServices() {
		if s.RootPath() == service.RootPath() {
			return true
		}
	}
	return false
}
