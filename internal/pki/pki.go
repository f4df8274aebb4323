// Package pki owns the cluster's certificates and keys on disk: two certificate
// authorities, the key that signs service-account tokens, and the certificates
// the cluster's own parts present. It creates what is missing and renews what
// is about to end or no longer fits; it never decides what a name may do.
//
// Servers and clients have an authority each, so that a certificate made for an
// endpoint can never be used to log in. Private keys are written with mode 0600
// in a directory of mode 0700, and every file is replaced whole. What joins a
// second machine (tokens, and their certificates) will stand here too.
package pki

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Authority is one certificate authority: who signs.
type Authority struct {
	// CertFile and KeyFile are where it stands on disk, as PEM.
	CertFile, KeyFile string

	cert *x509.Certificate
	key  crypto.Signer
}

// Pair is a certificate and its key on disk, as PEM.
type Pair struct{ CertFile, KeyFile string }

// PKI is the directory of a cluster's certificates.
type PKI struct {
	// Server signs what endpoints present: the API server and the nodes' agents.
	// Clients trust it; it is the root that Pods get as kube-root-ca.crt.
	Server *Authority
	// Client signs what callers present to log in.
	Client *Authority
	// ServiceAccountKeyFile is the private key that signs service-account tokens.
	ServiceAccountKeyFile string

	dir string
	now func() time.Time
}

// Open loads the certificates in dir, and makes those authorities and keys that
// are missing. It fails when a file is there and cannot be used: making a new
// authority over a damaged one would lock every node out.
func Open(dir string, now func() time.Time) (*PKI, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the certificates: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the certificates: %w", err)
	}
	p := &PKI{dir: dir, now: now, ServiceAccountKeyFile: filepath.Join(dir, "service-account.key")}
	var err error
	if p.Server, err = p.authority("server-ca", "muster-server-ca"); err != nil {
		return nil, err
	}
	if p.Client, err = p.authority("client-ca", "muster-client-ca"); err != nil {
		return nil, err
	}
	if _, err = loadOrMakeKey(p.ServiceAccountKeyFile); err != nil {
		return nil, unusable(p.ServiceAccountKeyFile, "the service-account key", err)
	}
	return p, nil
}

// APIServer is the certificate of the API server's endpoint for these addresses
// and names. It is made anew when one of them is not in it yet.
func (p *PKI) APIServer(ips []net.IP, names []string) (Pair, error) {
	return p.ensure("apiserver", request{
		authority: p.Server, commonName: "kube-apiserver", ips: ips, names: names,
		usage: x509.ExtKeyUsageServerAuth,
	})
}

// AgentServer is the certificate of a node agent's endpoint, in the form the
// signer for kubelet serving certificates asks for.
func (p *PKI) AgentServer(node string, ips []net.IP, names []string) (Pair, error) {
	return p.ensure("agent-server-"+node, request{
		authority: p.Server, commonName: "system:node:" + node, groups: []string{"system:nodes"},
		ips: ips, names: append([]string{node}, names...), usage: x509.ExtKeyUsageServerAuth,
	})
}

// AgentClient is the certificate with which a node's agent logs in.
func (p *PKI) AgentClient(node string) (Pair, error) {
	return p.client("agent-"+node, "system:node:"+node, "system:nodes")
}

// APIServerToNode is the certificate that the API server shows to agents.
func (p *PKI) APIServerToNode() (Pair, error) {
	return p.client("apiserver-to-node", NodeClientName)
}

// NodeClientName is the name under which the API server calls agents. Whether
// it may is decided by the API server itself, by role.
const NodeClientName = "kube-apiserver-kubelet-client"

// Admin is the certificate of the cluster's owner.
func (p *PKI) Admin() (Pair, error) {
	return p.client("admin", "kubernetes-admin", "system:masters")
}

func (p *PKI) client(file, name string, groups ...string) (Pair, error) {
	return p.ensure(file, request{
		authority: p.Client, commonName: name, groups: groups, usage: x509.ExtKeyUsageClientAuth,
	})
}

// unusable is why something that must never be replaced cannot be opened, and what
// to do.
func unusable(file, what string, err error) error {
	return fmt.Errorf("opening %s: %w; restore %s from a backup, or begin anew with `muster down --purge`", what, err, file)
}

// authority loads or makes one certificate authority.
func (p *PKI) authority(file, name string) (*Authority, error) {
	a := &Authority{CertFile: p.path(file + ".crt"), KeyFile: p.path(file + ".key")}
	var err error
	if a.key, err = loadOrMakeKey(a.KeyFile); err != nil {
		return nil, unusable(a.KeyFile, "the authority "+name, err)
	}
	certs, err := cert.CertsFromFile(a.CertFile)
	switch {
	case os.IsNotExist(err):
		a.cert, err = p.makeAuthority(a, name)
	case err == nil:
		a.cert, err = certs[0], a.matches(certs[0])
	}
	if err != nil {
		return nil, unusable(a.CertFile, "the authority "+name, err)
	}
	return a, nil
}

// matches fails when a certificate does not belong to the authority's key.
func (a *Authority) matches(c *x509.Certificate) error {
	public, ok := c.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(a.key.Public()) {
		return fmt.Errorf("%s does not belong to the key in %s: restore both from one backup", a.CertFile, a.KeyFile)
	}
	return nil
}

// PEM is the authority's certificate, for those who are to trust it.
func (a *Authority) PEM() ([]byte, error) { return cert.EncodeCertificates(a.cert) }

func (p *PKI) path(name string) string { return filepath.Join(p.dir, name) }

// loadOrMakeKey reads a private key, or makes one where there is none.
func loadOrMakeKey(file string) (crypto.Signer, error) {
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		if data, err = keyutil.MakeEllipticPrivateKeyPEM(); err == nil {
			err = writeFile(file, data, 0o600)
		}
	}
	if err != nil {
		return nil, err
	}
	key, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("reading %s: a key of type %T cannot sign", file, key)
	}
	return signer, nil
}
