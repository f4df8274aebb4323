package apiserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	customopenapi "k8s.io/apiextensions-apiserver/pkg/controller/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const openAPIV2, openAPIV3 = "/openapi/v2", "/openapi/v3"

// descriptions publish the kinds of both servers under /openapi/v2 and
// /openapi/v3. A description of built-in kinds is large and most are never read,
// so each is made when it is first asked for. Custom kinds are described by
// their own server, as they come and go.
type descriptions struct {
	config  routes.OpenAPI
	all     *restful.Container
	builtin map[string]func() *handler3.OpenAPIService // by "apis/apps/v1"
	custom  *handler3.OpenAPIService
	// build stands for the content of the descriptions of built-in kinds, which is
	// the program's own, where clients expect its hash.
	build  string
	old    func() http.Handler
	crds   *apiextensions.CustomResourceDefinitions
	ending <-chan struct{}
}

// installOpenAPI publishes the descriptions until ctx ends.
func installOpenAPI(ctx context.Context, c *genericapiserver.Config, server *genericapiserver.GenericAPIServer, custom *apiextensions.CustomResourceDefinitions) error {
	d := &descriptions{
		config:  routes.OpenAPI{Config: c.OpenAPIConfig, V3Config: c.OpenAPIV3Config},
		all:     restful.NewContainer(),
		builtin: map[string]func() *handler3.OpenAPIService{},
		custom:  handler3.NewOpenAPIService(),
		crds:    custom, ending: ctx.Done(),
	}
	var err error
	if d.build, err = buildHash(); err != nil {
		return fmt.Errorf("installing the descriptions of kinds: %w", err)
	}
	d.old = sync.OnceValue(d.describeAll)
	for _, s := range []*genericapiserver.GenericAPIServer{server, custom.GenericAPIServer} {
		for _, service := range s.Handler.GoRestfulContainer.RegisteredWebServices() {
			d.add(service)
		}
	}
	// The server of custom kinds adds them to the one and, since it is not given
	// what it would add them to, leaves the other alone: see describeAll.
	custom.GenericAPIServer.OpenAPIV3VersionedService = d.custom
	custom.GenericAPIServer.StaticOpenAPISpec = &spec.Swagger{}
	paths := server.Handler.NonGoRestfulMux
	paths.HandleFunc(openAPIV2, func(w http.ResponseWriter, r *http.Request) { d.old().ServeHTTP(w, r) })
	paths.HandleFunc(openAPIV3, d.list)
	paths.HandlePrefix(openAPIV3+"/", http.HandlerFunc(d.serve))
	return nil
}

// add notes a web service, unless there is one for its path already: both servers
// bring some (/version).
func (d *descriptions) add(service *restful.WebService) {
	name := strings.TrimPrefix(service.RootPath(), "/")
	if d.builtin[name] != nil {
		return
	}
	d.all.Add(service)
	d.builtin[name] = sync.OnceValue(func() *handler3.OpenAPIService {
		one := restful.NewContainer()
		one.Add(service)
		return d.config.InstallV3(one, mux.NewPathRecorderMux(name))
	})
}

// buildHash tells one build of this program from another.
func buildHash() (string, error) {
	program, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(fmt.Append(nil, program.Size(), program.ModTime().UnixNano()))
	return fmt.Sprintf("%X", sum), nil
}

// list answers which descriptions there are, without making any.
func (d *descriptions) list(w http.ResponseWriter, r *http.Request) {
	var all handler3.OpenAPIV3Discovery
	custom := answer{header: http.Header{}}
	// Without the caller's conditions: the whole list is needed.
	d.custom.HandleDiscovery(&custom, &http.Request{Method: http.MethodGet, Header: http.Header{}})
	if err := json.Unmarshal(custom.body.Bytes(), &all); err != nil {
		http.Error(w, fmt.Sprintf("reading the list of custom kinds: %v", err), http.StatusInternalServerError)
		return
	}
	for name := range d.builtin {
		all.Paths[name] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: d.address(name)}
	}
	text, err := json.Marshal(all)
	if err != nil {
		http.Error(w, fmt.Sprintf("listing the descriptions: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Etag", strconv.Quote(fmt.Sprintf("%X", sha256.Sum256(text))))
	w.Header().Set("Content-Type", "application/json")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// address is where a description of built-in kinds stands. Clients keep for ever
// what they got under one hash.
func (d *descriptions) address(name string) string {
	return (&url.URL{Path: openAPIV3 + "/" + name, RawQuery: url.Values{"hash": {d.build}}.Encode()}).String()
}

// serve answers with one description.
func (d *descriptions) serve(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, openAPIV3+"/")
	describe := d.builtin[name]
	if describe == nil {
		d.custom.HandleGroupVersion(w, r)
		return
	}
	hash := r.URL.Query().Get("hash")
	if hash != "" && hash != d.build {
		http.Redirect(w, r, d.address(name), http.StatusMovedPermanently)
		return
	}
	if hash != "" {
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
	}
	plain := r.Clone(r.Context())
	plain.URL.RawQuery = ""
	describe().HandleGroupVersion(w, plain)
}

// describeAll makes the one description that old clients ask for, and has custom
// kinds added to it from then on.
func (d *descriptions) describeAll() http.Handler {
	paths := mux.NewPathRecorderMux("openapi-v2")
	service, builtin := d.config.InstallV2(d.all, paths)
	crds := d.crds.Informers.Apiextensions().V1().CustomResourceDefinitions()
	go customopenapi.NewController(crds).Run(builtin, service, d.ending)
	return paths
}

// answer keeps what a handler answers.
type answer struct {
	header http.Header
	body   bytes.Buffer
}

func (a *answer) Header() http.Header            { return a.header }
func (a *answer) Write(text []byte) (int, error) { return a.body.Write(text) }
func (a *answer) WriteHeader(int)                {}
