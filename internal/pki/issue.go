package pki

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"

	"muster.dev/muster/internal/wholefile"
)

const (
	// authorityLife is how long an authority holds. Its end would end the cluster,
	// so it is long.
	authorityLife = 20 * 365 * 24 * time.Hour
	// certificateLife is how long a certificate holds.
	certificateLife = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is made anew. Four
	// months leave room for a machine that is seldom started.
	renewBefore = 120 * 24 * time.Hour
	// backdate lets a machine whose clock is a little behind accept a new one.
	backdate = 5 * time.Minute
)

// request is what a certificate has to say.
type request struct {
	authority  *Authority
	commonName string
	groups     []string
	ips        []net.IP
	names      []string
	usage      x509.ExtKeyUsage
}

// ensure returns the certificate under this name, made or renewed if needed. The
// key stays the same; only the certificate is replaced.
func (p *PKI) ensure(file string, r request) (Pair, error) {
	pair := Pair{CertFile: p.path(file + ".crt"), KeyFile: p.path(file + ".key")}
	key, err := loadOrMakeKey(pair.KeyFile)
	if err != nil {
		return Pair{}, fmt.Errorf("preparing the certificate %s: %w", file, err)
	}
	if p.stillGood(pair.CertFile, key, r) {
		return pair, nil
	}
	pem, err := p.sign(key, r)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the certificate %s: %w", file, err)
	}
	if err := writeFile(pair.CertFile, pem, 0o644); err != nil {
		return Pair{}, fmt.Errorf("writing the certificate %s: %w", file, err)
	}
	return pair, nil
}

// stillGood says whether the certificate on disk can go on being used. Whatever
// is wrong with it, the answer is to make a new one.
func (p *PKI) stillGood(file string, key crypto.Signer, r request) bool {
	certs, err := cert.CertsFromFile(file)
	if err != nil {
		return false
	}
	c := certs[0]
	public, ok := c.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(key.Public()) &&
		c.CheckSignatureFrom(r.authority.cert) == nil &&
		!p.now().Before(c.NotBefore) && p.now().Add(renewBefore).Before(c.NotAfter) &&
		c.Subject.CommonName == r.commonName && slices.Equal(c.Subject.Organization, r.groups) &&
		slices.Contains(c.ExtKeyUsage, r.usage) && covers(c, r)
}

// covers says whether every address and name asked for is in the certificate.
func covers(c *x509.Certificate, r request) bool {
	for _, ip := range r.ips {
		if !slices.ContainsFunc(c.IPAddresses, ip.Equal) {
			return false
		}
	}
	for _, name := range r.names {
		if !slices.Contains(c.DNSNames, name) {
			return false
		}
	}
	return true
}

// sign makes a certificate for key, as PEM.
func (p *PKI) sign(key crypto.Signer, r request) ([]byte, error) {
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: r.commonName, Organization: r.groups},
		IPAddresses:  r.ips,
		DNSNames:     slices.Compact(slices.Sorted(slices.Values(r.names))),
		NotBefore:    p.now().Add(-backdate),
		NotAfter:     p.now().Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{r.usage},
	}
	return create(template, r.authority.cert, key.Public(), r.authority.key)
}

// makeAuthority makes an authority's own certificate and writes it.
func (p *PKI) makeAuthority(a *Authority, name string) (*x509.Certificate, error) {
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             p.now().Add(-backdate),
		NotAfter:              p.now().Add(authorityLife),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	pem, err := create(template, template, a.key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	if err := writeFile(a.CertFile, pem, 0o644); err != nil {
		return nil, err
	}
	certs, err := cert.ParseCertsPEM(pem)
	if err != nil {
		return nil, err
	}
	return certs[0], nil
}

// create signs a template and encodes the result.
func create(template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) ([]byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, err
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return cert.EncodeCertificates(made)
}

func serialNumber() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

// writeFile replaces a file whole, or leaves it as it was: a crash never leaves
// half a key.
func writeFile(name string, data []byte, mode os.FileMode) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return os.Chmod(name, mode)
	}
	if err := wholefile.Write(name, data, mode); err != nil {
		return err
	}
	return wholefile.SyncDir(filepath.Dir(name))
}
