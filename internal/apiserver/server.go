package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	genericfilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

const (
	// readyPoll is how often a starting server is asked whether it is ready.
	readyPoll = 20 * time.Millisecond
	// hookGrace is how much longer a server gets that is to be stopped while it
	// starts.
	hookGrace = 10 * time.Second
	// connectionGrace is how long open connections get when the server stops;
	// streams such as followed logs are cut then.
	connectionGrace = 5 * time.Second
)

// Server is a running API server.
type Server struct {
	// URL is where the world reaches it, for example https://10.0.0.5:6443.
	URL string
	// CA is the certificate, as PEM, that vouches for it.
	CA []byte

	client  *rest.Config
	stop    context.CancelFunc
	stopped chan struct{}
	failure error // read after stopped
}

// Start puts the API server together and returns when it is ready. The context
// bounds the start only; Shutdown ends the server.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := o.prepare()
	if err != nil {
		return nil, fmt.Errorf("starting the API server: %w", err)
	}
	server, err := start(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("starting the API server: %w", errors.Join(err, closeListener(s.listener)))
	}
	return server, nil
}

// closeListener closes a listener that a stopped server may have closed already.
func closeListener(l net.Listener) error {
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func start(ctx context.Context, s *settings) (*Server, error) {
	ca, err := s.PKI.Server.PEM()
	if err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(context.Background())
	a, err := assemble(run, s)
	if err != nil {
		stop()
		return nil, err
	}
	generic, err := a.build(run)
	if err != nil {
		stop()
		return nil, err
	}
	server := &Server{
		URL:     "https://" + net.JoinHostPort(s.Advertise.String(), strconv.Itoa(s.port)),
		CA:      ca,
		client:  a.generic.LoopbackClientConfig,
		stop:    stop,
		stopped: make(chan struct{}),
	}
	prepared := generic.PrepareRun()
	a.local.Serve(generic.Handler)
	go func() {
		defer close(server.stopped)
		server.failure = prepared.RunWithContext(run)
	}()
	if err := server.waitReady(ctx, a.hooks); err != nil {
		return nil, errors.Join(err, server.giveUp(a.hooks))
	}
	return server, nil
}

// giveUp stops a server that was not ready in time. The libraries end the process
// when a start hook is interrupted, so the hooks first get a little longer.
func (s *Server) giveUp(h *hooks) error {
	grace, cancel := context.WithTimeout(context.Background(), hookGrace)
	defer cancel()
	// Whether it becomes ready now or fails again, it is stopped.
	_ = s.waitReady(grace, h)
	s.stop()
	<-s.stopped
	return s.failure
}

// build makes the server for custom kinds and, in front of it, the one for
// built-in kinds; what one does not know it hands to the next.
func (a *assembly) build(run context.Context) (*genericapiserver.GenericAPIServer, error) {
	notFound := notfoundhandler.New(a.generic.Serializer, genericfilters.NoMuxAndDiscoveryIncompleteKey)
	custom, err := a.custom.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, fmt.Errorf("making the server for custom kinds: %w", err)
	}
	completed := a.builtin.Complete()
	builtin, err := completed.New(controlplane.KubeAPIServer, custom.GenericAPIServer)
	if err != nil {
		return nil, fmt.Errorf("making the server for built-in kinds: %w", err)
	}
	client, err := kubernetes.NewForConfig(a.generic.LoopbackClientConfig)
	if err != nil {
		return nil, fmt.Errorf("making the server's own client: %w", err)
	}
	if err := a.install(run, completed, builtin, custom, client); err != nil {
		return nil, err
	}
	builtin.GenericAPIServer.ShutdownTimeout = connectionGrace
	return builtin.GenericAPIServer, nil
}

// install adds the kinds, the Service in front and the descriptions of it all.
func (a *assembly) install(run context.Context, c controlplane.CompletedConfig, builtin *controlplane.Server, custom *apiextensions.CustomResourceDefinitions, client kubernetes.Interface) error {
	providers, err := storageProviders(c, a.settings, client)
	if err != nil {
		return fmt.Errorf("preparing the stores: %w", err)
	}
	a.hooks.guardAll(providers)
	if err := builtin.InstallAPIs(providers...); err != nil {
		return fmt.Errorf("installing the kinds: %w", err)
	}
	server := builtin.GenericAPIServer
	if err := addServiceHooks(server, c, a.settings, client); err != nil {
		return err
	}
	orderDiscovery(server)
	if err := installOpenAPI(run, a.generic, server, custom); err != nil {
		return err
	}
	return listCustomGroups(server, custom)
}

// waitReady returns when /readyz passes. When it never does, the error says what
// it was still waiting for.
func (s *Server) waitReady(ctx context.Context, h *hooks) error {
	client, err := kubernetes.NewForConfig(s.client)
	if err != nil {
		return fmt.Errorf("making the client that waits for readiness: %w", err)
	}
	var answer []byte
	err = wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-h.failed:
			return false, err
		case <-s.stopped:
			return false, errors.New("it stopped while starting")
		default:
		}
		var status int
		answer, _ = client.Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").
			Do(ctx).StatusCode(&status).Raw()
		return status == http.StatusOK, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for readiness: %w; it last answered: %s", err, answer)
	}
	return nil
}

// clientConfig is how a client in this process calls the server, with the
// rights of the token's owner.
func clientConfig(t http.RoundTripper, host, token string) *rest.Config {
	return &rest.Config{
		Host:        host,
		BearerToken: token,
		Transport:   t,
		// There is no network to protect, and the server has its own limits.
		QPS: -1,
		ContentConfig: rest.ContentConfig{
			ContentType:        runtime.ContentTypeProtobuf,
			AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
		},
		DisableCompression: true,
	}
}

// Client is a configuration for clients in this process: straight into the
// server, without a network, with the rights of the cluster's owner.
func (s *Server) Client() *rest.Config { return rest.CopyConfig(s.client) }

// Shutdown ends the server: no new requests, then those in flight are answered,
// then watches and connections are closed. It returns when all has ended, or with
// an error when ctx does first; the store may be closed only after the former.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	select {
	case <-s.stopped:
		if s.failure != nil {
			return fmt.Errorf("stopping the API server: %w", s.failure)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping the API server: %w", ctx.Err())
	}
}

// Done is closed when the server has ended, by Shutdown or by a failure.
func (s *Server) Done() <-chan struct{} { return s.stopped }
