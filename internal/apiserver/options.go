package apiserver

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"k8s.io/apiserver/pkg/server/healthz"
	netutils "k8s.io/utils/net"

	"muster.dev/muster/internal/pki"
)

// DefaultServiceCIDR is where Services get their addresses.
const DefaultServiceCIDR = "10.96.0.0/16"

// Options say how the API server is reached and what it stands on.
type Options struct {
	// PKI holds the authorities and certificates; the server makes its own there.
	PKI *pki.PKI
	// Etcd are the addresses of the store, in the form the etcd client takes.
	Etcd []string
	// Listen is the address and port to listen on, for example "10.0.0.5:6443".
	// Port 0 takes any free one.
	Listen string
	// Advertise is the address under which Pods and nodes reach this server. Empty
	// means the one it listens on, which must then be a single address.
	Advertise net.IP
	// Names and IPs are more names and addresses for the server's certificate.
	Names []string
	IPs   []net.IP
	// ServiceCIDR is where Services get their addresses; empty means
	// DefaultServiceCIDR.
	ServiceCIDR string
	// Health are further checks shown in /healthz. They do not take part in
	// /readyz and /livez: a warning must not stop the service it is about.
	Health []healthz.HealthChecker
}

// settings are the options after parsing and defaulting.
type settings struct {
	Options
	listener    net.Listener
	port        int
	serviceCIDR *net.IPNet
	serviceIP   net.IP
}

// prepare checks the options and opens the listener. The caller closes it when a
// later step fails.
func (o Options) prepare() (*settings, error) {
	if o.PKI == nil || len(o.Etcd) == 0 {
		return nil, errors.New("a certificate store and an etcd address are needed")
	}
	s := &settings{Options: o}
	if s.ServiceCIDR == "" {
		s.ServiceCIDR = DefaultServiceCIDR
	}
	var err error
	if _, s.serviceCIDR, err = netutils.ParseCIDRSloppy(s.ServiceCIDR); err != nil {
		return nil, fmt.Errorf("reading the Service range %q: %w", s.ServiceCIDR, err)
	}
	if s.serviceIP, err = netutils.GetIndexedIP(s.serviceCIDR, 1); err != nil {
		return nil, fmt.Errorf("taking an address from the Service range %s: %w", s.ServiceCIDR, err)
	}
	if s.listener, err = net.Listen("tcp", o.Listen); err != nil {
		return nil, fmt.Errorf("listening on %s: %w", o.Listen, err)
	}
	bound := s.listener.Addr().(*net.TCPAddr)
	s.port = bound.Port
	if s.Advertise == nil {
		s.Advertise = bound.IP
	}
	if s.Advertise.IsUnspecified() {
		return nil, errors.Join(
			fmt.Errorf("listening on every address (%s) needs an address to advertise", o.Listen), s.listener.Close())
	}
	return s, nil
}

// certificate makes or renews the server's certificate: for the advertised and
// bound addresses, the Service in front of it, and what the owner added.
func (s *settings) certificate() (pki.Pair, error) {
	ips := append([]net.IP{s.Advertise, s.serviceIP, net.IPv4(127, 0, 0, 1), net.IPv6loopback}, s.IPs...)
	if bound := s.listener.Addr().(*net.TCPAddr).IP; !bound.IsUnspecified() {
		ips = append(ips, bound)
	}
	names := append([]string{
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local",
	}, s.Names...)
	return s.PKI.APIServer(compactIPs(ips), names)
}

// compactIPs drops repeated addresses.
func compactIPs(ips []net.IP) []net.IP {
	var out []net.IP
	for _, ip := range ips {
		if !slices.ContainsFunc(out, ip.Equal) {
			out = append(out, ip)
		}
	}
	return out
}
