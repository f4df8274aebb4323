package cri

import (
	"context"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// server is a CRI server in memory for what no containerd at hand would show:
// each of its calls is what a test says it is.
type server struct {
	criapi.UnimplementedRuntimeServiceServer
	status    func(*criapi.StatusRequest) (*criapi.StatusResponse, error)
	config    func() (*criapi.RuntimeConfigResponse, error)
	list      func(context.Context) error
	listed    []*criapi.Container
	container func(id string) (*criapi.ContainerStatus, error)
	events    func(grpc.ServerStreamingServer[criapi.ContainerEventResponse]) error
	more      func(*grpc.Server) // registers what else the socket serves
	versions  atomic.Int64
}

func (s *server) Version(context.Context, *criapi.VersionRequest) (*criapi.VersionResponse, error) {
	s.versions.Add(1)
	return &criapi.VersionResponse{RuntimeName: "test", RuntimeVersion: "1", RuntimeApiVersion: "v1"}, nil
}

func (s *server) Status(_ context.Context, request *criapi.StatusRequest) (*criapi.StatusResponse, error) {
	return s.status(request)
}

func (s *server) RuntimeConfig(ctx context.Context, request *criapi.RuntimeConfigRequest) (*criapi.RuntimeConfigResponse, error) {
	if s.config == nil {
		return s.UnimplementedRuntimeServiceServer.RuntimeConfig(ctx, request)
	}
	return s.config()
}

func (s *server) ListContainers(ctx context.Context, _ *criapi.ListContainersRequest) (*criapi.ListContainersResponse, error) {
	if s.list == nil {
		return &criapi.ListContainersResponse{Containers: s.listed}, nil
	}
	return nil, s.list(ctx)
}

func (s *server) ListPodSandbox(context.Context, *criapi.ListPodSandboxRequest) (*criapi.ListPodSandboxResponse, error) {
	return &criapi.ListPodSandboxResponse{}, nil
}

func (s *server) ContainerStatus(ctx context.Context, request *criapi.ContainerStatusRequest) (*criapi.ContainerStatusResponse, error) {
	if s.container == nil {
		return s.UnimplementedRuntimeServiceServer.ContainerStatus(ctx, request)
	}
	status, err := s.container(request.ContainerId)
	return &criapi.ContainerStatusResponse{Status: status}, err
}

func (s *server) GetContainerEvents(request *criapi.GetEventsRequest, stream grpc.ServerStreamingServer[criapi.ContainerEventResponse]) error {
	if s.events == nil {
		return s.UnimplementedRuntimeServiceServer.GetContainerEvents(request, stream)
	}
	return s.events(stream)
}

// serve starts s on a socket and returns its end.
func (s *server) serve(t *testing.T, socket string) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	criapi.RegisterRuntimeServiceServer(g, s)
	if s.more != nil {
		s.more(g)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(listener) // it ends with Stop
	}()
	stop = func() {
		g.Stop()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// client serves s and connects to it.
func (s *server) client(t *testing.T) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	s.serve(t, socket)
	return clientOf(t, socket, 10*time.Second)
}

func clientOf(t *testing.T, socket string, limit time.Duration) *Client {
	t.Helper()
	c, err := New(Options{Endpoint: "unix://" + socket, CallTimeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
