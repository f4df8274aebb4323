package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"muster.dev/muster/internal/runtime"
)

// Pods is what the endpoint asks the agent about its Pods.
type Pods interface {
	// Pod finds a Pod of this node, with the status the agent last gave it.
	Pod(namespace, name string) (*v1.Pod, bool)
	// Pods lists all Pods of this node.
	Pods() []*v1.Pod
	// Runs are the runs of a container that once started, the newest first. The
	// answer is fresh: a run that ended a moment ago is not Running.
	Runs(ctx context.Context, uid types.UID, container string) ([]Run, error)
	// Sandbox is the ID of the Pod's ready sandbox; empty when there is none.
	Sandbox(ctx context.Context, uid types.UID) (string, error)
}

// Run is one run of a container.
type Run struct {
	ContainerID string
	// LogPath is the log's path on the node.
	LogPath string
	Running bool
}

// Options are what a Server needs.
type Options struct {
	// Listen is the address to listen on, such as ":10250".
	Listen string
	// CertFile and KeyFile are the serving certificate, ClientCAFile the
	// certificates that client certificates are checked against. All three are
	// read again when they change.
	CertFile, KeyFile, ClientCAFile string
	// Client asks the API server who a token belongs to and who may do what. The
	// node's own credentials suffice.
	Client *rest.Config
	// NodeName is this node's name, which permissions are about.
	NodeName string
	Pods     Pods
	// Runtime opens streams into containers.
	Runtime runtime.Runtime
}

// shutdownGrace is how long requests under way may take when the agent stops.
const shutdownGrace = 3 * time.Second

// Server is the node's HTTPS endpoint. It listens from New on and answers from Run on.
type Server struct {
	options  Options
	listener net.Listener
	access   *access
	tls      *tls.Config
	serving  *dynamiccertificates.DynamicCertKeyPairContent
	clientCA *dynamiccertificates.DynamicFileCAContent
	reload   *dynamiccertificates.DynamicServingCertificateController
}

// New checks the certificates and takes the address.
func New(options Options) (*Server, error) {
	s := &Server{options: options}
	if err := s.loadCertificates(); err != nil {
		return nil, err
	}
	var err error
	if s.access, err = newAccess(options, s.clientCA); err != nil {
		return nil, err
	}
	if s.listener, err = net.Listen("tcp", options.Listen); err != nil {
		return nil, fmt.Errorf("listening for the node's endpoint: %w", err)
	}
	return s, nil
}

// Addr is the address it listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// loadCertificates reads the files for the first time and arranges for changes.
func (s *Server) loadCertificates() (err error) {
	s.serving, err = dynamiccertificates.NewDynamicServingContentFromFiles("node-endpoint", s.options.CertFile, s.options.KeyFile)
	if err != nil {
		return fmt.Errorf("reading the endpoint's certificate: %w", err)
	}
	s.clientCA, err = dynamiccertificates.NewDynamicCAContentFromFile("node-endpoint-client-ca", s.options.ClientCAFile)
	if err != nil {
		return fmt.Errorf("reading the endpoint's client certificate authority: %w", err)
	}
	// A client without a certificate may still have a token, so it is asked for one
	// but need not give it; whom to believe is settled per request.
	s.tls = &tls.Config{
		MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequestClientCert,
		NextProtos: []string{"h2", "http/1.1"},
	}
	s.reload = dynamiccertificates.NewDynamicServingCertificateController(s.tls, s.clientCA, s.serving, nil, nil)
	s.serving.AddListener(s.reload)
	s.clientCA.AddListener(s.reload)
	if err := s.reload.RunOnce(); err != nil {
		return fmt.Errorf("putting the endpoint's TLS together: %w", err)
	}
	s.tls.GetConfigForClient = s.reload.GetConfigForClient
	return nil
}

// Run serves until ctx ends, and returns when every request and stream has ended.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	background.Go(func() { s.serving.Run(ctx, 1) })
	background.Go(func() { s.clientCA.Run(ctx, 1) })
	background.Go(func() { s.reload.Run(1, ctx.Done()) })

	streams := newStreams()
	server := &http.Server{
		Handler:           s.access.guard(s.handler(streams)),
		TLSConfig:         s.tls,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       90 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(s.listener, "", "") }()
	select {
	case err := <-served:
		return fmt.Errorf("serving the node's endpoint: %w", err)
	case <-ctx.Done():
	}
	return s.stop(server, streams, served)
}

// stop ends the server: streams at once, other requests after a grace.
func (s *Server) stop(server *http.Server, streams *streams, served <-chan error) error {
	streams.close()
	grace, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	err := server.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	streams.wait()
	return err
}

func (s *Server) handler(streams *streams) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { answer(r, w, "ok") })
	mux.HandleFunc("GET /pods", s.listPods)
	mux.HandleFunc("GET /pods/", s.listPods)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.containerLogs)
	for _, method := range []string{"GET ", "POST "} {
		mux.HandleFunc(method+"/exec/{namespace}/{pod}/{container}", streams.handle(s.exec))
		mux.HandleFunc(method+"/exec/{namespace}/{pod}/{uid}/{container}", streams.handle(s.exec))
		mux.HandleFunc(method+"/attach/{namespace}/{pod}/{container}", streams.handle(s.attach))
		mux.HandleFunc(method+"/attach/{namespace}/{pod}/{uid}/{container}", streams.handle(s.attach))
		mux.HandleFunc(method+"/portForward/{namespace}/{pod}", streams.handle(s.portForward))
		mux.HandleFunc(method+"/portForward/{namespace}/{pod}/{uid}", streams.handle(s.portForward))
	}
	return mux
}

// answer writes a short text. A client that has gone away is nobody's fault.
func answer(r *http.Request, w http.ResponseWriter, text string) {
	if _, err := w.Write([]byte(text)); err != nil {
		klog.FromContext(r.Context()).V(4).Info("Client went away", "path", r.URL.Path, "err", err)
	}
}
