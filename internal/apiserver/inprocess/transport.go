// Package inprocess calls an HTTP handler in the same process as if over HTTP/2:
// requests go in, answers stream out, and neither network nor TLS nor framing is
// paid for. It knows nothing of what the handler serves.
package inprocess

import (
	"context"
	"fmt"
	"net/http"
)

// Transport is an http.RoundTripper that calls a handler directly. An answer that
// the handler flushes piece by piece, such as a watch, is read piece by piece.
//
// It may be handed out before there is a handler: requests wait for one.
type Transport struct {
	serving chan struct{} // closed when handler is set
	handler http.Handler
}

// New makes a transport that waits for its handler.
func New() *Transport { return &Transport{serving: make(chan struct{})} }

// Serve says where requests go. It is called once.
func (t *Transport) Serve(h http.Handler) {
	t.handler = h
	close(t.serving)
}

// RoundTrip answers as soon as the handler has sent its header; the body follows
// as it is written. Closing the body early ends the request.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	select {
	case <-t.serving:
	case <-req.Context().Done():
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, context.Cause(req.Context())
	}
	ctx, cancel := detached(req.Context())
	s := newStream(req, cancel)
	go s.run(t.handler, serverSide(ctx, req))
	select {
	case <-s.started:
		return s.response, nil
	case <-s.finished:
		if s.failure != nil {
			return nil, s.failure
		}
		return s.response, nil
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
}

// detached ends when parent does, but carries none of its values: the handler
// must not take what the caller's own request left there for its own.
func detached(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := context.AfterFunc(parent, func() { cancel(context.Cause(parent)) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// serverSide is the request as a server would see it after reading it from an
// HTTP/2 connection.
func serverSide(ctx context.Context, req *http.Request) *http.Request {
	in := req.Clone(ctx)
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/2.0", 2, 0
	in.RequestURI = req.URL.RequestURI()
	in.RemoteAddr = "127.0.0.1:0"
	if in.Host == "" {
		in.Host = req.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	return in
}

// panicked turns what a handler panicked with into an error for the caller.
func panicked(v any) error {
	if err, ok := v.(error); ok {
		return fmt.Errorf("the handler gave the request up: %w", err)
	}
	return fmt.Errorf("the handler gave the request up: %v", v)
}
