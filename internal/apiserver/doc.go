// Package apiserver is the cluster's API: Kubernetes' own storage, validation,
// defaulting, admission and authorization, put together for exactly the kinds
// muster acts on, in one server inside this process.
//
// It owns what is served (served.go), who may call (authentication.go,
// authorizer.go), the objects a cluster begins with (bootstrap.go,
// kubernetes_service.go) and the ways in: TLS for the world, and a transport
// without a network for the loops in this process (room inprocess). It decides
// nothing about Pods, nodes or daemons. Every other room speaks client-go, so
// this one can be replaced without touching them.
//
// There is no aggregation layer in front. What that layer does for one server,
// joining the built-in and the custom kinds in discovery and OpenAPI, is done in
// discovery.go and openapi.go.
//
// The Kubernetes packages it may import are listed, each with its reason, in
// imports_test.go; the tests of behaviour stand in the files beside it.
package apiserver
