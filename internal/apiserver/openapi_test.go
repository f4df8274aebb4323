package apiserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/handler3"

	"muster.dev/muster/internal/testkit/server"
)

// visit asks the server as the owner and follows no redirection.
func visit(t *testing.T, s *server.Server, path string, header http.Header) *http.Response {
	t.Helper()
	config := s.Client()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(soon(t), http.MethodGet, config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func descriptionsOf(t *testing.T, s *server.Server) map[string]handler3.OpenAPIV3DiscoveryGroupVersion {
	t.Helper()
	var all handler3.OpenAPIV3Discovery
	if err := json.NewDecoder(visit(t, s, "/openapi/v3", http.Header{}).Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all.Paths
}

// Each description is made when it is first asked for, so each is asked for.
func TestEveryListedDescriptionIsServed(t *testing.T) {
	s := server.Shared(t)
	all := descriptionsOf(t, s)
	for _, name := range []string{"api", "api/v1", "apis", "apis/apps", "apis/apps/v1", "apis/apiextensions.k8s.io/v1", "version"} {
		if _, there := all[name]; !there {
			t.Errorf("%s is not listed", name)
		}
	}
	for name, where := range all {
		response := visit(t, s, where.ServerRelativeURL, http.Header{"Accept": {"application/json"}})
		var doc struct {
			OpenAPI string                     `json:"openapi"`
			Paths   map[string]json.RawMessage `json:"paths"`
		}
		if err := json.NewDecoder(response.Body).Decode(&doc); err != nil || !strings.HasPrefix(doc.OpenAPI, "3.") || len(doc.Paths) == 0 {
			t.Errorf("%s answers %d, version %q, with %d paths, %v", where.ServerRelativeURL, response.StatusCode, doc.OpenAPI, len(doc.Paths), err)
		}
		for path := range doc.Paths {
			if !strings.HasPrefix(path, "/"+name) {
				t.Errorf("%s describes %s, which is another's", name, path)
			}
		}
		if got := response.Header.Get("Cache-Control"); !strings.Contains(got, "immutable") {
			t.Errorf("%s may not be kept: %q", where.ServerRelativeURL, got)
		}
	}
}

func TestDescriptionsKeptByClients(t *testing.T) {
	s := server.Shared(t)
	list := visit(t, s, "/openapi/v3", http.Header{})
	again := visit(t, s, "/openapi/v3", http.Header{"If-None-Match": {list.Header.Get("Etag")}})
	if again.StatusCode != http.StatusNotModified {
		t.Errorf("a list that a client has is sent again: %d", again.StatusCode)
	}

	where := descriptionsOf(t, s)["apis/apps/v1"].ServerRelativeURL
	stale := visit(t, s, "/openapi/v3/apis/apps/v1?hash=ANOTHER", http.Header{})
	if stale.StatusCode != http.StatusMovedPermanently || stale.Header.Get("Location") != where {
		t.Errorf("what another build described is answered %d, to %q; want 301 to %q", stale.StatusCode, stale.Header.Get("Location"), where)
	}
	plain := visit(t, s, "/openapi/v3/apis/apps/v1", http.Header{"Accept": {"application/json"}})
	if kept := plain.Header.Get("Cache-Control"); plain.StatusCode != http.StatusOK || strings.Contains(kept, "immutable") {
		t.Errorf("without a hash: %d, kept as %q", plain.StatusCode, kept)
	}
	binary := visit(t, s, where, http.Header{"Accept": {"application/com.github.proto-openapi.spec.v3.v1.0+protobuf"}})
	if got := binary.Header.Get("Content-Type"); binary.StatusCode != http.StatusOK || !strings.Contains(got, "protobuf") {
		t.Errorf("in binary: %d, %q", binary.StatusCode, got)
	}
}
