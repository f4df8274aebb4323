package stock_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
)

func TestEveryNamespaceGetsItsAccountAndRootCertificate(t *testing.T) {
	s, c := cluster(t)
	ctx := soon(t)
	namespace(t, c, "equipped")
	for _, name := range []string{"equipped", "default", "kube-system"} {
		waitFor(t, "the root certificate in "+name, func() bool {
			m, err := c.CoreV1().ConfigMaps(name).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			return err == nil && m.Data["ca.crt"] == string(s.CA)
		})
	}
	if err := c.CoreV1().ServiceAccounts("equipped").Delete(ctx, "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the account to come back", func() bool {
		_, err := c.CoreV1().ServiceAccounts("equipped").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}

func TestATokenSecretIsFilled(t *testing.T) {
	s, c := cluster(t)
	ctx := soon(t)
	namespace(t, c, "tokens")
	_, err := c.CoreV1().Secrets("tokens").Create(ctx, &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "t", Annotations: map[string]string{v1.ServiceAccountNameKey: "default"}},
		Type:       v1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var secret *v1.Secret
	waitFor(t, "the token", func() bool {
		secret, err = c.CoreV1().Secrets("tokens").Get(ctx, "t", metav1.GetOptions{})
		return err == nil && len(secret.Data[v1.ServiceAccountTokenKey]) > 0
	})
	if string(secret.Data[v1.ServiceAccountRootCAKey]) != string(s.CA) {
		t.Error("another root certificate is in it")
	}
	account, err := kubernetes.NewForConfig(&rest.Config{
		Host: s.URL, BearerToken: string(secret.Data[v1.ServiceAccountTokenKey]), TLSClientConfig: rest.TLSClientConfig{CAData: s.CA}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := account.Discovery().ServerVersion(); err != nil {
		t.Errorf("it does not log in: %v", err)
	}
}

// request asks for a certificate and returns the key it is for.
func request(t *testing.T, c kubernetes.Interface, name, signer string, subject pkix.Name, usages ...certificatesv1.KeyUsage) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.CertificatesV1().CertificateSigningRequests().Create(soon(t), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: signer, Usages: usages,
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAnApprovedRequestBecomesACertificateThatLogsIn(t *testing.T) {
	s, c := cluster(t)
	ctx := soon(t)
	requests := c.CertificatesV1().CertificateSigningRequests()
	key := request(t, c, "ann", certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: "ann", Organization: []string{"crew"}}, certificatesv1.UsageClientAuth)
	csr, err := requests.Get(ctx, "ann", metav1.GetOptions{})
	if err != nil || len(csr.Status.Certificate) > 0 {
		t.Fatalf("it was signed without approval: %v, %v", csr, err)
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: v1.ConditionTrue, Reason: "Test", LastUpdateTime: metav1.NewTime(time.Now())})
	if _, err := requests.UpdateApproval(ctx, "ann", csr, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the certificate", func() bool {
		csr, err = requests.Get(ctx, "ann", metav1.GetOptions{})
		return err == nil && len(csr.Status.Certificate) > 0
	})
	if _, err := tls.X509KeyPair(csr.Status.Certificate, key); err != nil {
		t.Fatal(err)
	}
	ann, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: s.CA, CertData: csr.Status.Certificate, KeyData: key}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ann.Discovery().ServerVersion(); err != nil {
		t.Errorf("it does not log in: %v", err)
	}
}

func TestAQuotaCountsAndRefuses(t *testing.T) {
	_, c := cluster(t)
	ctx := soon(t)
	namespace(t, c, "small")
	_, err := c.CoreV1().ResourceQuotas("small").Create(ctx, &v1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec: v1.ResourceQuotaSpec{Hard: v1.ResourceList{
			v1.ResourcePods: resource.MustParse("1"), "count/daemonsets.apps": resource.MustParse("1")}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	used := func(name v1.ResourceName) string {
		q, err := c.CoreV1().ResourceQuotas("small").Get(ctx, "q", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		amount, counted := q.Status.Used[name]
		if !counted {
			return "uncounted"
		}
		return amount.String()
	}
	waitFor(t, "the first count", func() bool { return used(v1.ResourcePods) == "0" })
	pod := func(name string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}}}
	}
	if _, err := c.CoreV1().Pods("small").Create(ctx, pod("one"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = c.CoreV1().Pods("small").Create(ctx, pod("two"), metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1") {
		t.Errorf("a second Pod: %v", err)
	}
	if _, err := c.AppsV1().DaemonSets("small").Create(ctx, daemonSet("d"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AppsV1().DaemonSets("small").Create(ctx, daemonSet("e"), metav1.CreateOptions{}); err == nil {
		t.Error("a second daemon was admitted")
	}
	if err := c.CoreV1().Pods("small").Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the Pod to be uncounted", func() bool { return used(v1.ResourcePods) == "0" })
}

func TestAServiceFindsItsReadyPods(t *testing.T) {
	_, c := cluster(t)
	ctx := soon(t)
	namespace(t, c, "services")
	_, err := c.CoreV1().Services("services").Create(ctx, &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       v1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []v1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A Pod of a node that is not there is nobody's address.
	if _, err := c.CoreV1().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := c.CoreV1().Pods("services").Create(ctx, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{"app": "web"}},
		Spec:       v1.PodSpec{NodeName: "n", Containers: []v1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status = v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.1.2.3", PodIPs: []v1.PodIP{{IP: "10.1.2.3"}},
		Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}
	if _, err := c.CoreV1().Pods("services").UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the address in the slice", func() bool {
		slices, err := c.DiscoveryV1().EndpointSlices("services").List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
		return err == nil && len(slices.Items) == 1 && len(slices.Items[0].Endpoints) == 1 &&
			slices.Items[0].Endpoints[0].Addresses[0] == "10.1.2.3" && *slices.Items[0].Endpoints[0].Conditions.Ready
	})
	waitFor(t, "the address in the Endpoints", func() bool {
		e, err := c.CoreV1().Endpoints("services").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && len(e.Subsets) == 1 && e.Subsets[0].Addresses[0].IP == "10.1.2.3"
	})
}

func TestClusterRolesAreSummed(t *testing.T) {
	_, c := cluster(t)
	ctx := soon(t)
	_, err := c.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "view-widgets", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"example.test"}, Resources: []string{"widgets"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the role view to contain it", func() bool {
		view, err := c.RbacV1().ClusterRoles().Get(ctx, "view", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range view.Rules {
			if len(rule.Resources) == 1 && rule.Resources[0] == "widgets" {
				return true
			}
		}
		return false
	})
}
