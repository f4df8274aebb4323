package apiserver_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"muster.dev/muster/internal/apiserver"
	"muster.dev/muster/internal/testkit/server"
)

// servedResources is the whole API. A kind that appears in it by an upgrade of a
// library must be acted on, or left out in served.go.
var servedResources = map[string]string{
	"v1": "bindings configmaps endpoints events limitranges namespaces namespaces/finalize namespaces/status nodes " +
		"nodes/proxy nodes/status persistentvolumeclaims persistentvolumeclaims/status persistentvolumes " +
		"persistentvolumes/status pods pods/attach pods/binding pods/ephemeralcontainers pods/eviction pods/exec " +
		"pods/log pods/portforward pods/proxy pods/status podtemplates resourcequotas " +
		"resourcequotas/status secrets serviceaccounts serviceaccounts/token services services/proxy services/status",
	"admissionregistration.k8s.io/v1": "mutatingadmissionpolicies mutatingadmissionpolicybindings " +
		"mutatingwebhookconfigurations validatingadmissionpolicies validatingadmissionpolicies/status " +
		"validatingadmissionpolicybindings validatingwebhookconfigurations",
	"apiextensions.k8s.io/v1":         "customresourcedefinitions customresourcedefinitions/status",
	"apps/v1":                         "controllerrevisions daemonsets daemonsets/status",
	"authentication.k8s.io/v1":        "selfsubjectreviews tokenreviews",
	"authorization.k8s.io/v1":         "localsubjectaccessreviews selfsubjectaccessreviews selfsubjectrulesreviews subjectaccessreviews",
	"certificates.k8s.io/v1":          "certificatesigningrequests certificatesigningrequests/approval certificatesigningrequests/status",
	"coordination.k8s.io/v1":          "leases",
	"discovery.k8s.io/v1":             "endpointslices",
	"events.k8s.io/v1":                "events",
	"flowcontrol.apiserver.k8s.io/v1": "flowschemas flowschemas/status prioritylevelconfigurations prioritylevelconfigurations/status",
	"networking.k8s.io/v1":            "ipaddresses servicecidrs servicecidrs/status",
	"node.k8s.io/v1":                  "runtimeclasses",
	"policy/v1":                       "poddisruptionbudgets poddisruptionbudgets/status",
	"rbac.authorization.k8s.io/v1":    "clusterrolebindings clusterroles rolebindings roles",
	"scheduling.k8s.io/v1":            "priorityclasses",
	"storage.k8s.io/v1":               "csidrivers storageclasses volumeattachments volumeattachments/status",
}

func TestExactlyTheseKindsAreServed(t *testing.T) {
	discovery := owner(t, server.Shared(t)).Discovery()
	_, lists, err := discovery.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, list := range lists {
		// The subresources stand only in the list of the one version.
		all, err := discovery.ServerResourcesForGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range all.APIResources {
			names = append(names, r.Name)
		}
		slices.Sort(names)
		seen[list.GroupVersion] = true
		if got, want := strings.Join(names, " "), servedResources[list.GroupVersion]; got != want {
			t.Errorf("%s serves\n  %s\nwant\n  %s", list.GroupVersion, got, want)
		}
	}
	for version := range servedResources {
		if !seen[version] {
			t.Errorf("%s is not served", version)
		}
	}
}

func TestPlainDiscoveryListsEveryGroup(t *testing.T) {
	// Clients that do not know aggregated discovery read /apis as it was before.
	groups := &metav1.APIGroupList{}
	err := owner(t, server.Shared(t)).Discovery().RESTClient().Get().AbsPath("/apis").
		SetHeader("Accept", "application/json").Do(soon(t)).Into(groups)
	if err != nil {
		t.Fatal(err)
	}
	for version := range servedResources {
		group, _, grouped := strings.Cut(version, "/")
		if grouped && !slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == group }) {
			t.Errorf("%s is missing", group)
		}
	}
}

func TestAClusterBeginsWith(t *testing.T) {
	s := server.Shared(t)
	c := owner(t, s)
	ctx := soon(t)
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		waitFor(t, "the namespace "+name, func() bool {
			_, err := c.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			return err == nil
		})
	}
	for name, value := range map[string]int32{"system-node-critical": 2000001000, "system-cluster-critical": 2000000000} {
		class, err := c.SchedulingV1().PriorityClasses().Get(ctx, name, metav1.GetOptions{})
		if err != nil || class.Value != value {
			t.Errorf("priority class %s: %v, %v", name, class, err)
		}
	}
	for _, role := range []string{"cluster-admin", "admin", "edit", "view", "system:node"} {
		if _, err := c.RbacV1().ClusterRoles().Get(ctx, role, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	waitFor(t, "the Service kubernetes", func() bool {
		service, err := c.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		return err == nil && service.Spec.ClusterIP == "10.96.0.1"
	})
	version, err := c.Discovery().ServerVersion()
	if err != nil || version.GitVersion != apiserver.Version() || !strings.HasPrefix(version.GitVersion, "v1.37.") ||
		!strings.HasSuffix(version.GitVersion, "+muster") || version.Minor != "37" {
		t.Errorf("it says it is %+v (%v)", version, err)
	}
}

func TestTheServicePointsToTheRealAddress(t *testing.T) {
	ip := hostAddress(t)
	s, err := server.Open(t.TempDir(), apiserver.Options{Listen: ip.String() + ":0"})
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			s.Close()
		}
	}()
	c := owner(t, s)
	var slice string
	waitFor(t, "an endpoint of the Service kubernetes", func() bool {
		slices, err := c.DiscoveryV1().EndpointSlices("default").List(soon(t), metav1.ListOptions{
			LabelSelector: "kubernetes.io/service-name=kubernetes"})
		if err != nil || len(slices.Items) != 1 || len(slices.Items[0].Endpoints) != 1 {
			return false
		}
		slice = slices.Items[0].Endpoints[0].Addresses[0]
		return true
	})
	if slice != ip.String() || !strings.Contains(s.URL, ip.String()) {
		t.Errorf("the Service leads to %s, the server is at %s", slice, s.URL)
	}
	closed = true
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestTheClientInProcessWatches(t *testing.T) {
	c := owner(t, server.Shared(t))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w, err := c.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=watched"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	made, err := c.CoreV1().ConfigMaps("default").Create(ctx, &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "watched"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	written := time.Now()
	event := <-w.ResultChan()
	if got, ok := event.Object.(*v1.ConfigMap); !ok || got.UID != made.UID {
		t.Fatalf("the watch gave %v", event)
	}
	if late := time.Since(written); late > time.Second {
		t.Errorf("the event came %s after the write", late)
	}
}

func newClient(t *testing.T, s *server.Server, node string) kubernetes.Interface {
	t.Helper()
	pair, err := s.PKI.AgentClient(node)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(s.Config(pair))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
