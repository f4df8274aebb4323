package endpoint

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/util/flushwriter"
	criapi "k8s.io/cri-api/pkg/apis"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/logs"
	"k8s.io/klog/v2"
)

// logRequest is what a reader of a log asks for.
type logRequest struct {
	options  logs.LogOptions
	previous bool
	stream   string
}

// containerLogs answers with a container's log.
func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request) {
	request, err := parseLogRequest(r.URL.Query(), time.Now())
	if err != nil {
		refuse(w, r, err)
		return
	}
	pod, container, err := s.findContainer(r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	run, err := s.logged(r.Context(), pod, container, request.previous)
	if err != nil {
		refuse(w, r, err)
		return
	}
	out := &counted{Writer: flushwriter.Wrap(w)}
	stdout, stderr := request.writers(out)
	w.Header().Set("Content-Type", "text/plain")
	state := runState{pods: s.options.Pods, pod: pod, container: container}
	err = logs.ReadLogs(r.Context(), run.LogPath, run.ContainerID, &request.options, state, stdout, stderr)
	if err == nil || r.Context().Err() != nil {
		return
	}
	if out.written {
		klog.FromContext(r.Context()).Error(err, "Log broke off", "pod", klog.KObj(pod), "container", container)
		return
	}
	refuse(w, r, badRequest("%s", err))
}

func (l logRequest) writers(out io.Writer) (stdout, stderr io.Writer) {
	switch l.stream {
	case v1.LogStreamStdout:
		return out, nil
	case v1.LogStreamStderr:
		return nil, out
	}
	return out, out
}

// counted remembers whether anything was written, after which an error can no
// longer become the answer.
type counted struct {
	io.Writer
	written bool
}

func (c *counted) Write(p []byte) (int, error) {
	c.written = true
	return c.Writer.Write(p)
}

// runState tells the log reader whether the container still runs. That is all the
// reader asks of a runtime; any other call would be a change in its library.
type runState struct {
	criapi.RuntimeService
	pods      Pods
	pod       *v1.Pod
	container string
}

// ContainerStatus says whether the run with this ID still runs.
func (s runState) ContainerStatus(ctx context.Context, id string, _ bool) (*cri.ContainerStatusResponse, error) {
	runs, err := s.pods.Runs(ctx, s.pod.UID, s.container)
	if err != nil {
		return nil, err
	}
	state := cri.ContainerState_CONTAINER_EXITED
	for _, run := range runs {
		if run.ContainerID == id && run.Running {
			state = cri.ContainerState_CONTAINER_RUNNING
		}
	}
	return &cri.ContainerStatusResponse{Status: &cri.ContainerStatus{Id: id, State: state}}, nil
}

// parseLogRequest reads the options of a log request (v1.PodLogOptions as a query).
func parseLogRequest(query url.Values, now time.Time) (logRequest, error) {
	p := parser{query: query}
	request := logRequest{previous: p.flag("previous"), stream: query.Get("stream")}
	request.options = logs.LogOptions{
		Follow:     p.flag("follow"),
		Timestamp:  p.flag("timestamps"),
		TailLines:  p.number("tailLines", 0),
		LimitBytes: p.number("limitBytes", 1),
	}
	seconds := p.number("sinceSeconds", 1)
	if seconds != nil {
		request.options.Since = now.Add(-time.Duration(*seconds) * time.Second)
	}
	if since := query.Get("sinceTime"); since != "" {
		p.check(seconds == nil)
		at, err := time.Parse(time.RFC3339, since)
		p.check(err == nil)
		request.options.Since = at
	}
	switch request.stream {
	case "", v1.LogStreamAll, v1.LogStreamStdout, v1.LogStreamStderr:
	default:
		p.check(false)
	}
	if p.invalid {
		return logRequest{}, &problem{http.StatusUnprocessableEntity, `{"message": "Invalid request."}`}
	}
	return request, nil
}

// parser reads typed values of a query and remembers whether one made no sense.
type parser struct {
	query   url.Values
	invalid bool
}

func (p *parser) check(ok bool) { p.invalid = p.invalid || !ok }

func (p *parser) flag(name string) bool {
	text := p.query.Get(name)
	if text == "" {
		return false
	}
	value, err := strconv.ParseBool(text)
	p.check(err == nil)
	return value
}

func (p *parser) number(name string, least int64) *int64 {
	text := p.query.Get(name)
	if text == "" {
		return nil
	}
	value, err := strconv.ParseInt(text, 10, 64)
	p.check(err == nil && value >= least)
	return &value
}

// refuse answers with an error: the problem it is, else an internal one.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	var known *problem
	if errors.As(err, &known) {
		http.Error(w, known.message, known.status)
		return
	}
	klog.FromContext(r.Context()).Error(err, "Request failed", "path", r.URL.Path)
	http.Error(w, err.Error(), http.StatusInternalServerError)
}
