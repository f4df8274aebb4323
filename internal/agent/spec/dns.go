package spec

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// What resolv.conf can hold, by Kubernetes' validation.
const (
	maxNameservers = 3
	maxSearches    = 32
)

// ParseResolv reads the resolver configuration of a resolv.conf file.
func ParseResolv(content string) *cri.DNSConfig {
	config := &cri.DNSConfig{}
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			config.Servers = append(config.Servers, fields[1])
		case "search":
			config.Searches = fields[1:]
		case "options":
			config.Options = fields[1:]
		}
	}
	return config
}

// DNSFallback says, in Kubernetes' words, that the Pod asked for the cluster's DNS
// and gets the node's since there is none; empty where that is not so. It belongs
// into an event with the reason MissingClusterDNS.
func DNSFallback(pod *v1.Pod, node Node) string {
	if !wantsClusterDNS(pod) || len(node.ClusterDNS) > 0 {
		return ""
	}
	return fmt.Sprintf("pod: %q. muster does not have ClusterDNS IP configured and cannot create Pod using %q policy. Falling back to %q policy.",
		pod.Name+"_"+pod.Namespace+"("+string(pod.UID)+")", v1.DNSClusterFirst, v1.DNSDefault)
}

func wantsClusterDNS(pod *v1.Pod) bool {
	switch pod.Spec.DNSPolicy {
	case v1.DNSClusterFirstWithHostNet:
		return true
	case v1.DNSClusterFirst, "":
		return !pod.Spec.HostNetwork
	}
	return false
}

// dnsConfig is the resolver configuration of a Pod.
func dnsConfig(pod *v1.Pod, node Node) *cri.DNSConfig {
	config := &cri.DNSConfig{}
	switch {
	case pod.Spec.DNSPolicy == v1.DNSNone:
	case wantsClusterDNS(pod) && len(node.ClusterDNS) > 0:
		config.Servers = slices.Clone(node.ClusterDNS)
		config.Searches = append(clusterSearches(pod, node), node.Resolv.GetSearches()...)
		config.Options = []string{"ndots:5"}
	default:
		config.Servers = slices.Clone(node.Resolv.GetServers())
		config.Searches = slices.Clone(node.Resolv.GetSearches())
		config.Options = slices.Clone(node.Resolv.GetOptions())
	}
	if own := pod.Spec.DNSConfig; own != nil {
		config.Servers = append(config.Servers, own.Nameservers...)
		config.Searches = append(config.Searches, own.Searches...)
		config.Options = mergeOptions(config.Options, own.Options)
	}
	config.Servers = atMost(unique(config.Servers), maxNameservers)
	config.Searches = atMost(unique(config.Searches), maxSearches)
	return config
}

func clusterSearches(pod *v1.Pod, node Node) []string {
	if node.ClusterDomain == "" {
		return nil
	}
	service := "svc." + node.ClusterDomain
	return []string{pod.Namespace + "." + service, service, node.ClusterDomain}
}

// mergeOptions lets the Pod's own options replace those of the same name.
func mergeOptions(base []string, own []v1.PodDNSConfigOption) []string {
	overridden := map[string]bool{}
	for _, option := range own {
		overridden[option.Name] = true
	}
	merged := slices.DeleteFunc(slices.Clone(base), func(option string) bool {
		name, _, _ := strings.Cut(option, ":")
		return overridden[name]
	})
	for _, option := range own {
		if value := ptr.Deref(option.Value, ""); value != "" {
			merged = append(merged, option.Name+":"+value)
		} else {
			merged = append(merged, option.Name)
		}
	}
	return merged
}

func unique(list []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(item string) bool {
		twice := seen[item]
		seen[item] = true
		return twice
	})
}

func atMost(list []string, limit int) []string {
	return list[:min(len(list), limit)]
}
