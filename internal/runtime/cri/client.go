package cri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
)

// Options say where the runtime is and how long its calls may take.
type Options struct {
	// Endpoint is the runtime's socket, "unix:///run/containerd/containerd.sock".
	Endpoint string
	// CallTimeout bounds every ordinary call, and what a call may take beyond the
	// grace or command time it was given; default 2 minutes.
	CallTimeout time.Duration
	// LongTimeout bounds image pulls and commands without a time of their own;
	// default 30 minutes.
	LongTimeout time.Duration
	// Logger is told of lost and regained connections; default slog.Default().
	Logger *slog.Logger
}

// maxMessage is the largest answer accepted, in bytes: a list of some ten
// thousand containers with their annotations.
const maxMessage = 64 << 20

// Client is a runtime.Runtime. It may be used by many goroutines.
type Client struct {
	options Options
	conn    *grpc.ClientConn
	runtime cri.RuntimeServiceClient
	images  cri.ImageServiceClient
	log     *slog.Logger
}

var _ runtime.Runtime = (*Client)(nil)

// New makes a client. It does not wait for the runtime: the connection is made at
// the first call, and made again whenever it was lost.
func New(options Options) (*Client, error) {
	if !strings.HasPrefix(options.Endpoint, "unix://") {
		return nil, fmt.Errorf("runtime endpoint %q is not a unix:// address", options.Endpoint)
	}
	if options.CallTimeout <= 0 {
		options.CallTimeout = 2 * time.Minute
	}
	if options.LongTimeout <= 0 {
		options.LongTimeout = 30 * time.Minute
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	conn, err := grpc.NewClient(options.Endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			// A local socket costs nothing to try, and a node stands still meanwhile.
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}))
	if err != nil {
		return nil, fmt.Errorf("preparing connection to %s: %w", options.Endpoint, err)
	}
	return &Client{
		options: options,
		conn:    conn,
		runtime: cri.NewRuntimeServiceClient(conn),
		images:  cri.NewImageServiceClient(conn),
		log:     options.Logger.With("runtime", options.Endpoint),
	}, nil
}

// Close ends the connection and every call on it. The contexts of Events should
// have ended before: they go on trying to connect.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("closing connection to %s: %w", c.options.Endpoint, err)
	}
	return nil
}

// call makes one unary call within the ordinary time limit.
func call[Q, A any](ctx context.Context, c *Client, doing string, f func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	return callWithin(ctx, c.options.CallTimeout, doing, f, request)
}

// callWithin makes one unary call that may take limit, or less by ctx.
func callWithin[Q, A any](ctx context.Context, limit time.Duration, doing string, f func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := f(ctx, request)
	if err != nil {
		return answer, fmt.Errorf("%s: %w", doing, translate(err))
	}
	return answer, nil
}

// gone turns "it is not there" into success, for Stop and Remove.
func gone(err error) error {
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	return err
}
