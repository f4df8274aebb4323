package inprocess

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
)

const (
	// sendAfter is how much of a body is collected before the caller gets the
	// response: most answers fit and are then handed over whole.
	sendAfter = 32 << 10
	// holdBack is how much may wait for a slow reader before the handler is made
	// to wait too.
	holdBack = 1 << 20
)

// stream is both ends of one response: the handler writes into it, the
// caller reads its body. It implements http.ResponseWriter with Flush, as an
// HTTP/2 server's does.
type stream struct {
	ctx      context.Context // the handler's; it ends when nobody listens
	response *http.Response
	cancel   context.CancelFunc
	started  chan struct{} // closed when the caller may have the response
	finished chan struct{} // closed when the handler has returned
	failure  error         // why there is no answer; read after finished

	mu      sync.Mutex
	changed *sync.Cond
	header  http.Header
	wrote   bool // the status is set
	sent    bool // started is closed
	buffer  bytes.Buffer
	ended   error // io.EOF when the body is complete, else what cut it
	closed  bool  // the caller reads no more
}

func newStream(req *http.Request, cancel context.CancelFunc) *stream {
	s := &stream{
		cancel: cancel, header: http.Header{},
		started: make(chan struct{}), finished: make(chan struct{}),
	}
	s.changed = sync.NewCond(&s.mu)
	s.response = &http.Response{
		Proto: "HTTP/2.0", ProtoMajor: 2, ContentLength: -1, Request: req, Body: (*body)(s),
	}
	return s
}

// run calls the handler and completes the response, whatever the handler does.
func (s *stream) run(handler http.Handler, req *http.Request) {
	defer close(s.finished)
	defer req.Body.Close()
	s.ctx = req.Context()
	stop := context.AfterFunc(req.Context(), func() { s.end(context.Cause(req.Context())) })
	defer stop()
	defer func() {
		if v := recover(); v != nil {
			s.fail(panicked(v))
			return
		}
		if cut := context.Cause(s.ctx); cut != nil {
			s.fail(cut) // the handler gave up: what it wrote is not the whole
			return
		}
		s.WriteHeader(http.StatusOK)
		s.end(io.EOF)
		s.cancel()
	}()
	handler.ServeHTTP(s, req)
}

// fail ends a response whose handler panicked or gave up.
func (s *stream) fail(err error) {
	s.mu.Lock()
	if !s.sent {
		s.failure = err
	}
	s.mu.Unlock()
	s.end(err)
	s.cancel()
}

// end marks the body as complete or cut; the first reason stays.
func (s *stream) end(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = reason
	}
	s.changed.Broadcast()
}

func (s *stream) Header() http.Header { return s.header }

func (s *stream) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeHeaderLocked(status)
}

func (s *stream) writeHeaderLocked(status int) {
	if s.wrote || status < http.StatusOK { // 1xx answers announce another one
		return
	}
	s.wrote = true
	s.response.StatusCode = status
	s.response.Status = http.StatusText(status)
	s.response.Header = s.header.Clone()
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeHeaderLocked(http.StatusOK)
	for s.sent && s.buffer.Len() > holdBack && s.ended == nil && !s.closed {
		s.changed.Wait()
	}
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	if s.ended != nil {
		return 0, s.ended
	}
	s.buffer.Write(p)
	if s.buffer.Len() >= sendAfter {
		s.sendLocked()
	}
	s.changed.Broadcast()
	return len(p), nil
}

// Flush hands over what has been written so far: a watch does so per event.
func (s *stream) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeHeaderLocked(http.StatusOK)
	s.sendLocked()
	s.changed.Broadcast()
}

func (s *stream) sendLocked() {
	if !s.sent {
		s.sent = true
		close(s.started)
	}
}

// CloseNotify is part of what an HTTP/2 server's writer offers.
func (s *stream) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(s.ctx, func() { gone <- true })
	return gone
}

// body is the caller's end of a stream.
type body stream

func (b *body) Read(p []byte) (int, error) {
	s := (*stream)(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.buffer.Len() == 0 && s.ended == nil && !s.closed {
		s.changed.Wait()
	}
	if s.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if s.buffer.Len() == 0 {
		return 0, s.ended
	}
	n, err := s.buffer.Read(p)
	s.changed.Broadcast()
	return n, err
}

// Close tells the handler that nobody reads on.
func (b *body) Close() error {
	s := (*stream)(b)
	s.mu.Lock()
	s.closed = true
	s.changed.Broadcast()
	s.mu.Unlock()
	s.cancel()
	return nil
}
