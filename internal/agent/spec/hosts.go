package spec

import (
	"bytes"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// The kernel holds 64 characters of host name; DNS holds 63 in one label.
const (
	maxHostname       = 63
	maxKernelHostname = 64
)

// loopback is what every Pod's /etc/hosts begins with.
var loopback = [][2]string{
	{"127.0.0.1", "localhost"},
	{"::1", "localhost ip6-localhost ip6-loopback"},
	{"fe00::0", "ip6-localnet"},
	{"fe00::0", "ip6-mcastprefix"},
	{"fe00::1", "ip6-allnodes"},
	{"fe00::2", "ip6-allrouters"},
}

// Hostname is the Pod's host name and, where it has a subdomain, its domain.
func Hostname(pod *v1.Pod, node Node) (name, domain string) {
	switch {
	case pod.Spec.HostnameOverride != nil:
		return *pod.Spec.HostnameOverride, ""
	case pod.Spec.HostNetwork:
		return node.Hostname, ""
	}
	name = pod.Spec.Hostname
	if name == "" {
		name = pod.Name
	}
	if len(name) > maxHostname {
		name = strings.TrimRight(name[:maxHostname], "-.")
	}
	if pod.Spec.Subdomain != "" {
		domain = strings.TrimSuffix(pod.Spec.Subdomain+"."+pod.Namespace+".svc."+node.ClusterDomain, ".")
	}
	return name, domain
}

// HostsFile is the content of the Pod's /etc/hosts: the node's for a host-network
// Pod, else the Pod's own addresses; then the Pod's hostAliases.
func HostsFile(pod *v1.Pod, node Node, podIPs []string) []byte {
	var out bytes.Buffer
	if pod.Spec.HostNetwork {
		out.WriteString("# Kubernetes-managed hosts file (host network).\n")
		out.Write(node.HostsFile)
	} else {
		out.WriteString("# Kubernetes-managed hosts file.\n")
		for _, line := range loopback {
			fmt.Fprintf(&out, "%s\t%s\n", line[0], line[1])
		}
		writeOwnNames(&out, pod, node, podIPs)
	}
	if len(pod.Spec.HostAliases) > 0 {
		out.WriteString("\n# Entries added by HostAliases.\n")
	}
	for _, alias := range pod.Spec.HostAliases {
		fmt.Fprintf(&out, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
	}
	return out.Bytes()
}

func writeOwnNames(out *bytes.Buffer, pod *v1.Pod, node Node, podIPs []string) {
	name, domain := Hostname(pod, node)
	for _, ip := range podIPs {
		if domain != "" {
			fmt.Fprintf(out, "%s\t%s.%s\t%s\n", ip, name, domain, name)
		} else {
			fmt.Fprintf(out, "%s\t%s\n", ip, name)
		}
	}
}
