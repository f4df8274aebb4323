package endpoint

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"sync"
)

// trackedWriter keeps account of a connection that becomes a stream.
type trackedWriter struct {
	http.ResponseWriter
	streams *streams
}

// Unwrap lets http.ResponseController reach the writer beneath.
func (t *trackedWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// Hijack takes the connection over.
func (t *trackedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	hijacker, ok := t.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, errors.New("streams need HTTP/1.1")
	}
	connection, buffer, err := hijacker.Hijack()
	if err != nil {
		return nil, nil, err
	}
	tracked := &hijacked{Conn: connection, streams: t.streams}
	t.streams.mu.Lock()
	defer t.streams.mu.Unlock()
	if t.streams.closed {
		return nil, nil, errors.Join(errors.New("the node's agent stops"), connection.Close())
	}
	t.streams.open[tracked] = struct{}{}
	return tracked, buffer, nil
}

// hijacked is a connection that is a stream; closing it ends the account.
type hijacked struct {
	net.Conn
	streams *streams
	once    sync.Once
}

// Close closes the connection.
func (h *hijacked) Close() error {
	h.once.Do(func() {
		h.streams.mu.Lock()
		delete(h.streams.open, h)
		h.streams.mu.Unlock()
	})
	return h.Conn.Close()
}
