package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
)

// noon is when these tests take place; none reads the machine's clock.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, dir string, at time.Time) *PKI {
	t.Helper()
	p, err := Open(dir, func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func read(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	certs, err := cert.CertsFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return certs[0]
}

func must(t *testing.T) func(Pair, error) Pair {
	return func(p Pair, err error) Pair {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

func TestKeysAreTheOwnersOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	p := open(t, dir, noon)
	must(t)(p.Admin())
	must(t)(p.APIServer([]net.IP{net.IPv4(10, 0, 0, 1)}, []string{"a"}))
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	keys := 0
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f.Name(), ".key") {
			keys++
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %o", f.Name(), info.Mode().Perm())
			}
		} else if !strings.HasSuffix(f.Name(), ".crt") {
			t.Errorf("%s is left behind", f.Name())
		}
	}
	if keys != 5 { // two authorities, accounts, admin, API server
		t.Errorf("%d keys", keys)
	}
}

func TestWhoACertificateIsFor(t *testing.T) {
	p := open(t, t.TempDir(), noon)
	ip := net.ParseIP("192.0.2.7")
	for _, c := range []struct {
		name         string
		pair         Pair
		authority    *Authority
		commonName   string
		group        string
		usage, never x509.ExtKeyUsage
	}{
		{"admin", must(t)(p.Admin()), p.Client, "kubernetes-admin", "system:masters", x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		{"agent", must(t)(p.AgentClient("n1")), p.Client, "system:node:n1", "system:nodes", x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		{"to node", must(t)(p.APIServerToNode()), p.Client, NodeClientName, "", x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		{"agent server", must(t)(p.AgentServer("n1", []net.IP{ip}, nil)), p.Server, "system:node:n1", "system:nodes", x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		{"API server", must(t)(p.APIServer([]net.IP{ip}, []string{"api"})), p.Server, "kube-apiserver", "", x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := read(t, c.pair.CertFile)
			if got.Subject.CommonName != c.commonName || strings.Join(got.Subject.Organization, ",") != c.group {
				t.Errorf("it is for %s", got.Subject)
			}
			roots := x509.NewCertPool()
			roots.AddCert(c.authority.cert)
			verify := x509.VerifyOptions{Roots: roots, CurrentTime: noon, KeyUsages: []x509.ExtKeyUsage{c.usage}}
			if _, err := got.Verify(verify); err != nil {
				t.Errorf("for its purpose: %v", err)
			}
			verify.KeyUsages = []x509.ExtKeyUsage{c.never}
			if _, err := got.Verify(verify); err == nil {
				t.Error("it also serves the other purpose")
			}
			other := p.Client
			if c.authority == p.Client {
				other = p.Server
			}
			if got.CheckSignatureFrom(other.cert) == nil {
				t.Error("the other authority vouches for it too")
			}
			if _, err := tls.LoadX509KeyPair(c.pair.CertFile, c.pair.KeyFile); err != nil {
				t.Errorf("certificate and key: %v", err)
			}
		})
	}
	if err := read(t, must(t)(p.AgentServer("n1", []net.IP{ip}, nil)).CertFile).VerifyHostname("192.0.2.7"); err != nil {
		t.Error(err)
	}
}

func TestWhenACertificateIsMadeAnew(t *testing.T) {
	one, two := net.IPv4(10, 0, 0, 1), net.IPv4(10, 0, 0, 2)
	for _, c := range []struct {
		name  string
		after time.Duration
		ips   []net.IP
		names []string
		anew  bool
	}{
		{"the next day", 24 * time.Hour, []net.IP{one}, []string{"a"}, false},
		{"fewer names", 0, []net.IP{one}, nil, false},
		{"another address", 0, []net.IP{two}, []string{"a"}, true},
		{"another name", 0, []net.IP{one}, []string{"b"}, true},
		{"long before its end", certificateLife - renewBefore - time.Hour, []net.IP{one}, []string{"a"}, false},
		{"near its end", certificateLife - renewBefore + time.Hour, []net.IP{one}, []string{"a"}, true},
		{"past its end", certificateLife + time.Hour, []net.IP{one}, []string{"a"}, true},
		{"a clock set far back", -24 * time.Hour, []net.IP{one}, []string{"a"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			pair := must(t)(open(t, dir, noon).APIServer([]net.IP{one}, []string{"a"}))
			before, key := read(t, pair.CertFile), readFile(t, pair.KeyFile)

			again := must(t)(open(t, dir, noon.Add(c.after)).APIServer(c.ips, c.names))
			after := read(t, again.CertFile)
			if anew := after.SerialNumber.Cmp(before.SerialNumber) != 0; anew != c.anew {
				t.Errorf("made anew: %v", anew)
			}
			if readFile(t, again.KeyFile) != key {
				t.Error("the key has changed")
			}
			for _, ip := range c.ips {
				if err := after.VerifyHostname(ip.String()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestAuthoritiesStay(t *testing.T) {
	dir := t.TempDir()
	first, second := open(t, dir, noon), open(t, dir, noon.Add(300*24*time.Hour))
	if !first.Server.cert.Equal(second.Server.cert) || !first.Client.cert.Equal(second.Client.cert) {
		t.Error("an authority was made anew")
	}
	if readFile(t, first.ServiceAccountKeyFile) != readFile(t, second.ServiceAccountKeyFile) {
		t.Error("the service-account key was made anew")
	}
}

func TestADamagedAuthorityIsNotReplaced(t *testing.T) {
	for _, file := range []string{"server-ca.key", "client-ca.crt", "service-account.key"} {
		t.Run(file, func(t *testing.T) {
			dir := t.TempDir()
			open(t, dir, noon)
			damaged := filepath.Join(dir, file)
			if err := os.WriteFile(damaged, []byte("damaged"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir, func() time.Time { return noon }); err == nil {
				t.Error("it opened all the same")
			}
			if readFile(t, damaged) != "damaged" {
				t.Error("it was overwritten")
			}
		})
	}
	t.Run("another key", func(t *testing.T) {
		dir := t.TempDir()
		open(t, dir, noon)
		if err := os.Remove(filepath.Join(dir, "client-ca.key")); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir, func() time.Time { return noon })
		if err == nil || !strings.Contains(err.Error(), "does not belong to the key") {
			t.Errorf("it says %v", err)
		}
	})
}

func TestKubeconfig(t *testing.T) {
	p := open(t, t.TempDir(), noon)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte("old and readable by all"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteKubeconfig(file, "https://10.0.0.1:6443", must(t)(p.Admin())); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	raw, err := clientcmd.LoadFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if raw.CurrentContext != "muster" {
		t.Errorf("the context is %q", raw.CurrentContext)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://10.0.0.1:6443" {
		t.Errorf("the server is %q", config.Host)
	}
	if _, err := tls.X509KeyPair(config.CertData, config.KeyData); err != nil {
		t.Error(err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(config.CAData) {
		t.Error("no authority in it")
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestWhatCannotBeOpenedSaysWhatToDo: each of the files that are never replaced.
func TestWhatCannotBeOpenedSaysWhatToDo(t *testing.T) {
	for _, name := range []string{"server-ca.crt", "server-ca.key", "client-ca.crt", "client-ca.key", "service-account.key"} {
		dir := t.TempDir()
		open(t, dir, noon)
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("-----BEGIN"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir, func() time.Time { return noon })
		if err == nil || !strings.Contains(err.Error(), "restore "+file) || !strings.Contains(err.Error(), "muster down --purge") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
