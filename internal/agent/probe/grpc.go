package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// grpc succeeds when the container's health service says SERVING.
func (w *watch) grpc(ctx context.Context, action *v1.GRPCAction, timeout time.Duration) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	address := net.JoinHostPort(w.target.PodIP, strconv.Itoa(int(action.Port)))
	security := insecure.NewCredentials()
	if ptr.Deref(action.Mode, v1.GRPCProbeModePlaintext) == v1.GRPCProbeModeTLS {
		security = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
	}
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(security), grpc.WithUserAgent(userAgent), grpc.WithNoProxy())
	if err != nil {
		return result{}, err
	}
	defer connection.Close()
	answer, err := health.NewHealthClient(connection).
		Check(ctx, &health.HealthCheckRequest{Service: ptr.Deref(action.Service, "")})
	if err != nil {
		return result{output: grpcFailure(err, timeout)}, nil
	}
	if answer.Status != health.HealthCheckResponse_SERVING {
		return result{output: fmt.Sprintf("service unhealthy (responded with %q)", answer.Status)}, nil
	}
	return result{ok: true}, nil
}

func grpcFailure(err error, timeout time.Duration) string {
	switch status.Code(err) {
	case codes.Unimplemented:
		return "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " + status.Convert(err).Message()
	case codes.DeadlineExceeded:
		return fmt.Sprintf("timeout: health rpc did not complete within %v", timeout)
	}
	return fmt.Sprintf("error: health rpc probe failed: %v", err)
}
