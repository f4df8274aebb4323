package endpoint

import (
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/util/proxy"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// opener asks the runtime for a stream and returns the runtime's address for it.
type opener func(r *http.Request) (*url.URL, error)

// exec opens a command in a container.
func (s *Server) exec(r *http.Request) (*url.URL, error) {
	id, wanted, err := s.streamTarget(r)
	if err != nil {
		return nil, err
	}
	return s.options.Runtime.Exec(r.Context(), &cri.ExecRequest{
		ContainerId: id, Cmd: r.URL.Query()["command"],
		Stdin: wanted.stdin, Stdout: wanted.stdout, Stderr: wanted.stderr, Tty: wanted.tty,
	})
}

// attach opens the streams of a container's own process.
func (s *Server) attach(r *http.Request) (*url.URL, error) {
	id, wanted, err := s.streamTarget(r)
	if err != nil {
		return nil, err
	}
	return s.options.Runtime.Attach(r.Context(), &cri.AttachRequest{
		ContainerId: id,
		Stdin:       wanted.stdin, Stdout: wanted.stdout, Stderr: wanted.stderr, Tty: wanted.tty,
	})
}

// portForward opens ports of a Pod.
func (s *Server) portForward(r *http.Request) (*url.URL, error) {
	pod, err := s.findPod(r)
	if err != nil {
		return nil, err
	}
	ports, err := portsOf(r.URL.Query())
	if err != nil {
		return nil, err
	}
	sandbox, err := s.options.Pods.Sandbox(r.Context(), pod.UID)
	if err != nil {
		return nil, err
	}
	if sandbox == "" {
		return nil, notFound("pod not found (%q)", pod.Name+"_"+pod.Namespace)
	}
	return s.options.Runtime.PortForward(r.Context(), &cri.PortForwardRequest{PodSandboxId: sandbox, Port: ports})
}

// portsOf are the ports in the query. SPDY clients name them later, per stream.
func portsOf(query url.Values) ([]int32, error) {
	var ports []int32
	for _, text := range query["port"] {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return nil, badRequest("invalid port %q", text)
		}
		ports = append(ports, int32(port))
	}
	return ports, nil
}

// wanted are the streams a client asks for.
type wanted struct{ stdin, stdout, stderr, tty bool }

func (s *Server) streamTarget(r *http.Request) (id string, streams wanted, err error) {
	query := r.URL.Query()
	asked := func(name string) bool { return query.Get(name) == "1" || query.Get(name) == "true" }
	streams = wanted{stdin: asked("input"), stdout: asked("output"), stderr: asked("error"), tty: asked("tty")}
	if streams.tty {
		streams.stderr = false // a terminal has one output
	}
	if !streams.stdin && !streams.stdout && !streams.stderr {
		return "", streams, badRequest("you must specify at least 1 of stdin, stdout, stderr")
	}
	pod, container, err := s.findContainer(r)
	if err != nil {
		return "", streams, err
	}
	run, err := s.running(r.Context(), pod, container)
	return run.ContainerID, streams, err
}

// streams are the open streams through the endpoint. net/http lets go of a
// connection that becomes a stream, so they are waited for here.
type streams struct {
	mu     sync.Mutex
	closed bool
	open   map[*hijacked]struct{}
	all    sync.WaitGroup
}

func newStreams() *streams { return &streams{open: map[*hijacked]struct{}{}} }

// handle connects a client with the address that open returns.
func (s *streams) handle(open opener) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.begin() {
			http.Error(w, "the node's agent stops", http.StatusServiceUnavailable)
			return
		}
		defer s.all.Done()
		address, err := open(r)
		if err != nil {
			refuse(w, r, err)
			return
		}
		through := proxy.NewUpgradeAwareHandler(address, nil, false, httpstream.IsUpgradeRequest(r), responder{})
		through.ServeHTTP(&trackedWriter{ResponseWriter: w, streams: s}, r)
	}
}

// begin counts a stream in, unless it is too late for one.
func (s *streams) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.all.Add(1)
	return true
}

// close breaks all streams off and lets no more begin.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for connection := range s.open {
		// The stream's own end reports what there is to say.
		_ = connection.Conn.Close()
	}
}

// wait returns when the last stream has ended.
func (s *streams) wait() { s.all.Wait() }

type responder struct{}

// Error answers for a runtime that does not.
func (responder) Error(w http.ResponseWriter, r *http.Request, err error) { refuse(w, r, err) }
