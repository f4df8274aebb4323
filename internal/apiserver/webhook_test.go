package apiserver_test

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/testkit/server"
)

// refusing is a webhook at an address others can reach, which refuses every
// config map.
func refusing(t *testing.T, s *server.Server, ip net.IP) int32 {
	t.Helper()
	pair, err := s.PKI.APIServer([]net.IP{ip}, []string{"hook.hooks.svc"})
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(ip.String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	hook := &httptest.Server{Listener: listener, Config: &http.Server{
		ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var review admissionv1.AdmissionReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			review.Response = &admissionv1.AdmissionResponse{
				UID: review.Request.UID, Result: &metav1.Status{Message: "the hook says no"}}
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(review); err != nil {
				t.Error(err)
			}
		}),
	}}
	hook.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	hook.StartTLS()
	t.Cleanup(hook.Close)
	return int32(listener.Addr().(*net.TCPAddr).Port)
}

func TestAWebhookBehindAServiceIsFoundByItsEndpoints(t *testing.T) {
	// Nothing routes Service addresses here, as on a machine without kube-proxy.
	ip := hostAddress(t)
	s := server.StartServer(t)
	c := owner(t, s)
	ctx := soon(t)
	space(t, c, "hooks", nil)
	port, ready, name, protocol := refusing(t, s, ip), true, "https", v1.ProtocolTCP
	svc := service("hook", "")
	svc.Spec.Ports[0].Name, svc.Spec.Ports[0].Port = name, 443
	if _, err := c.CoreV1().Services("hooks").Create(ctx, svc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := c.DiscoveryV1().EndpointSlices("hooks").Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "hook", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{ip.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	none, path := admissionregistrationv1.SideEffectClassNone, "/"
	_, err = c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "hook.example.test", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				CABundle: s.CA, Service: &admissionregistrationv1.ServiceReference{Namespace: "hooks", Name: "hook", Path: &path}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelMetadataName: "hooks"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var last error
	waitFor(t, "the webhook to be asked", func() bool {
		_, last = c.CoreV1().ConfigMaps("hooks").Create(ctx, &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return last != nil
	})
	if !strings.Contains(last.Error(), "the hook says no") {
		t.Errorf("it says %v", last)
	}
}
