// Package host makes a Linux machine able to run Pods, and takes back everything
// it made. It owns the preflight checks, muster's own containerd (its folders,
// configuration, process and images), the Pod network's bridge and CNI
// configuration, the Pods' parent cgroup, and their removal.
//
// It never decides about Pods: it knows none of their rules, and touches a
// container only to clear the machine. Everything it makes is under the data
// directory or carries a name derived from it (see layout.go), so several
// clusters can live side by side and removal never reaches another's.
//
// Pure parts (facts to checks, configuration texts, iptables clean-up, archives)
// have table tests; the rest is tested against a real containerd, as root.
package host
