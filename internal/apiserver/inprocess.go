package apiserver

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// inProcess is an http.RoundTripper that calls the server's handler directly:
// authentication, authorization, admission and all, but no network, no TLS and
// no HTTP framing. Watches stream through it as they do over HTTP/2.
//
// The server's own parts get it before there is a server: their requests wait.
type inProcess struct {
	serving chan struct{} // closed when handler is set
	handler http.Handler
}

func newInProcess() *inProcess { return &inProcess{serving: make(chan struct{})} }

// serve tells it where requests go. It is called once.
func (t *inProcess) serve(h http.Handler) {
	t.handler = h
	close(t.serving)
}

// RoundTrip answers as soon as the handler has sent its header; the body follows
// as it is written. Closing the body early ends the request.
func (t *inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	select {
	case <-t.serving:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	ctx, cancel := context.WithCancel(req.Context())
	w := newResponseStream(req, cancel)
	go w.run(t.handler, serverSide(req, ctx))
	select {
	case <-w.started:
		return w.response, nil
	case <-w.finished:
		if w.failure != nil {
			return nil, w.failure
		}
		return w.response, nil
	case <-req.Context().Done():
		cancel()
		return nil, req.Context().Err()
	}
}

// serverSide is the request as a server would see it after reading it from an
// HTTP/2 connection.
func serverSide(req *http.Request, ctx context.Context) *http.Request {
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

// clientConfig is how a client in this process calls the server, with the
// rights of the token's owner.
func (t *inProcess) clientConfig(host, token string) *rest.Config {
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

// panicked turns what a handler panicked with into an error for the caller.
func panicked(v any) error {
	if err, ok := v.(error); ok {
		return fmt.Errorf("the API server gave the request up: %w", err)
	}
	return fmt.Errorf("the API server gave the request up: %v", v)
}
