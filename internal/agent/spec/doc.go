// Package spec translates a Pod into what the container runtime is told: the
// sandbox's configuration and each container's. It decides names, security,
// resources, environment, mounts and files' contents, all as Kubernetes'
// conventions have them, so that log shippers, monitors and crictl find what
// they expect.
//
// It is pure: everything from outside the Pod (image user, node facts, prepared
// volumes, config maps and secrets) comes in as values or through Lookup and
// Volumes. It never talks to the runtime and never writes a file.
package spec
