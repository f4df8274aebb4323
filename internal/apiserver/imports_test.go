package apiserver_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// kubernetesPackages are the packages of k8s.io/kubernetes that this room and
// internal/control/stock may import, and why. What is not here is muster's own
// work (Pods, nodes, daemons, placement) or has no business in it.
var kubernetesPackages = map[string]string{
	"pkg/api/legacyscheme":                             "the scheme of the built-in kinds, which their stores register with",
	"pkg/apis/core":                                    "the internal form of Endpoints, which the store of server addresses is keyed by",
	"pkg/apis/*/install":                               "registers a served group's kinds, defaults and conversions",
	"pkg/apis/scheduling/v1":                           "the two system priority classes",
	"pkg/auth/nodeidentifier":                          "reads a node's name out of its certificate",
	"pkg/capabilities":                                 "admits privileged Pods; PodSecurity says where",
	"pkg/controller":                                   "resync periods, in the form the quota controller takes",
	"pkg/controller/certificates/approver":             "stock controller: approves what nodes may ask for",
	"pkg/controller/certificates/cleaner":              "stock controller: clears old certificate requests",
	"pkg/controller/certificates/rootcacertpublisher":  "stock controller: the root certificate in every namespace",
	"pkg/controller/certificates/signer":               "stock controller: signs approved certificate requests",
	"pkg/controller/clusterroleaggregation":            "stock controller: cluster roles that are the sum of others",
	"pkg/controller/endpoint":                          "stock controller: Endpoints of Services",
	"pkg/controller/endpointslice":                     "stock controller: EndpointSlices of Services",
	"pkg/controller/endpointslicemirroring":            "stock controller: EndpointSlices of hand-made Endpoints",
	"pkg/controller/garbagecollector":                  "stock controller: deletion by owner",
	"pkg/controller/namespace":                         "stock controller: the end of namespaces",
	"pkg/controller/resourcequota":                     "stock controller: usage of quotas",
	"pkg/controller/serviceaccount":                    "stock controller: default accounts and token Secrets",
	"pkg/controlplane/apiserver":                       "the generic assembly of an API server",
	"pkg/controlplane/apiserver/options":               "its options",
	"pkg/controlplane/controller/defaultservicecidr":   "the range of Service addresses, as an object",
	"pkg/controlplane/controller/kubernetesservice":    "the Service in front of the API server",
	"pkg/controlplane/reconcilers":                     "the servers' addresses behind that Service",
	"pkg/generated/openapi":                            "the descriptions of the built-in kinds",
	"pkg/kubeapiserver/admission":                      "what Kubernetes' admission plugins are initialised with",
	"pkg/kubelet/client":                               "only the configuration of the API server's calls to agents",
	"pkg/quota/v1/evaluator/core":                      "counts Pods, Services and claims against a quota",
	"pkg/quota/v1/install":                             "what counts against a quota",
	"pkg/registry/*/rest":                              "a served group's stores, validation and tables",
	"pkg/serviceaccount":                               "makes the tokens of token Secrets",
	"plugin/pkg/admission/network/defaultingressclass": "its name, to leave it out: ingress classes are not served",
	"plugin/pkg/admission/noderestriction":             "its name, to switch it on",
	"plugin/pkg/auth/authorizer/node":                  "a node reaches what its own Pods need, and no more",
	"plugin/pkg/auth/authorizer/rbac":                  "everybody else by role",
	"plugin/pkg/auth/authorizer/rbac/bootstrappolicy":  "the default roles and bindings",
}

func TestOnlyListedKubernetesPackagesAreImported(t *testing.T) {
	const kubernetes = "k8s.io/kubernetes/"
	used := map[string]bool{}
	for _, room := range []string{".", "../control/stock"} {
		files, err := filepath.Glob(filepath.Join(room, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in %s: %v", room, err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range parsed.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				pkg, ok := strings.CutPrefix(path, kubernetes)
				if !ok {
					continue
				}
				if entry, listed := listedAs(pkg); listed {
					used[entry] = true
				} else {
					t.Errorf("%s imports %s: it is not on the list; do it with a staging module, or add it with its reason", file, path)
				}
			}
		}
	}
	for entry := range kubernetesPackages {
		if !used[entry] {
			t.Errorf("%s is on the list but nothing imports it: take it off", entry)
		}
	}
}

// listedAs finds the entry that allows a package; "*" in one stands for the name
// of a group.
func listedAs(pkg string) (string, bool) {
	if _, ok := kubernetesPackages[pkg]; ok {
		return pkg, true
	}
	for entry := range kubernetesPackages {
		if ok, err := filepath.Match(entry, pkg); err == nil && ok {
			return entry, true
		}
	}
	return "", false
}
