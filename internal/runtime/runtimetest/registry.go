package runtimetest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Registry is an image registry of one test, on the loopback interface and without
// TLS, which runtimes accept there.
type Registry struct {
	// Image is the name of the one image in it: the test image.
	Image string
	// Digest is that image's manifest digest, "sha256:…".
	Digest string
	// Username and Password are asked for when they are not empty.
	Username, Password string

	content map[string]blob // by path
}

type blob struct {
	mediaType string
	bytes     []byte
}

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

// StartRegistry serves the test image until the test ends.
func StartRegistry(t testing.TB) *Registry {
	t.Helper()
	program, err := BuildProg(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	layer, err := layerOf(program)
	if err != nil {
		t.Fatal(err)
	}
	config, err := configOf(layer, "", "pulled")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2,
		"mediaType":     manifestType,
		"config":        descriptor(configType, config),
		"layers":        []any{descriptor(layerType, layer)},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &Registry{Digest: "sha256:" + digest(manifest)}
	r.content = map[string]blob{
		"/v2/prog/manifests/1":                    {manifestType, manifest},
		"/v2/prog/manifests/" + r.Digest:          {manifestType, manifest},
		"/v2/prog/blobs/sha256:" + digest(config): {"application/octet-stream", config},
		"/v2/prog/blobs/sha256:" + digest(layer):  {"application/octet-stream", layer},
	}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.Image = strings.TrimPrefix(server.URL, "http://") + "/prog:1"
	return r
}

func descriptor(mediaType string, content []byte) map[string]any {
	return map[string]any{"mediaType": mediaType, "digest": "sha256:" + digest(content), "size": len(content)}
}

// ServeHTTP is the part of the distribution protocol that a pull uses.
func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if user, password, _ := request.BasicAuth(); user != r.Username || password != r.Password {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	found, ok := r.content[request.URL.Path]
	if !ok {
		http.NotFound(w, request)
		return
	}
	w.Header().Set("Content-Type", found.mediaType)
	w.Header().Set("Docker-Content-Digest", "sha256:"+digest(found.bytes))
	if _, err := w.Write(found.bytes); err != nil {
		return // the puller went away
	}
}
