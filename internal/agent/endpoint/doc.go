// Package endpoint is the node's HTTPS endpoint, which the API server calls for
// kubectl logs, exec, attach and port-forward. It speaks the kubelet's paths:
//
//	/containerLogs/NS/POD/CONTAINER                       read a container's log
//	/exec, /attach /NS/POD[/UID]/CONTAINER                streams into a container
//	/portForward/NS/POD[/UID]                             streams into a Pod
//	/pods                                                 the Pods of this node
//	/healthz                                              is anybody there
//
// Nothing is open to everyone: who calls is settled by a client certificate or a
// token, what they may do by the API server's own answer (SubjectAccessReview on
// nodes/proxy and its siblings). The runtime's streaming address is reached only
// through here.
package endpoint
