package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const (
	userAgent    = "kube-probe/1.37"
	maxRedirects = 10
)

// transport never reuses a connection (a probe asks whether a new client would be
// served), goes through no proxy and takes any certificate.
var transport = &http.Transport{
	DisableKeepAlives:  true,
	DisableCompression: true,
	TLSClientConfig:    &tls.Config{InsecureSkipVerify: true},
	ForceAttemptHTTP2:  true,
}

// plainHTTP2 is the same for probes that ask for HTTP/2 without TLS.
var plainHTTP2 = func() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{DisableKeepAlives: true, DisableCompression: true, Protocols: protocols}
}()

// httpGet succeeds with a status from 200 to 399.
func (w *watch) httpGet(ctx context.Context, action *v1.HTTPGetAction, timeout time.Duration) (result, error) {
	request, err := w.httpRequest(ctx, action)
	if err != nil {
		return result{}, err
	}
	client := &http.Client{Timeout: timeout, Transport: transport, CheckRedirect: stayOnHost}
	if ptr.Deref(action.Protocol, v1.HTTPProtocolHTTP1) == v1.HTTPProtocolHTTP2 && request.URL.Scheme == "http" {
		client.Transport = plainHTTP2
	}
	response, err := client.Do(request)
	if err != nil {
		return result{output: err.Error()}, nil
	}
	defer response.Body.Close()
	// Only the status counts, but a server should get to send its answer.
	if _, err := io.CopyN(io.Discard, response.Body, maxOutput); err != nil && !errors.Is(err, io.EOF) {
		return result{output: err.Error()}, nil
	}
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
		return result{output: fmt.Sprintf("HTTP probe failed with statuscode: %d", response.StatusCode)}, nil
	}
	return result{ok: true}, nil
}

func (w *watch) httpRequest(ctx context.Context, action *v1.HTTPGetAction) (*http.Request, error) {
	port, err := w.port(action.Port)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(action.Path)
	if err != nil {
		target = &url.URL{Path: action.Path} // a path that is no URL is meant literally
	}
	target.Scheme = strings.ToLower(string(action.Scheme))
	if target.Scheme == "" {
		target.Scheme = "http"
	}
	target.Host = net.JoinHostPort(w.host(action.Host), port)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	setHeaders(request, action.HTTPHeaders)
	return request, nil
}

// setHeaders adds the probe's headers; an empty one takes a default away.
func setHeaders(request *http.Request, headers []v1.HTTPHeader) {
	for _, header := range headers {
		request.Header.Add(header.Name, header.Value)
	}
	for name, value := range map[string]string{"User-Agent": userAgent, "Accept": "*/*"} {
		own, set := request.Header[name]
		switch {
		case !set:
			request.Header.Set(name, value)
		case name == "Accept" && own[0] == "":
			request.Header.Del(name)
		}
	}
	request.Host = request.Header.Get("Host")
}

// stayOnHost follows redirects as long as they stay on the probed host; one that
// leads away is an answer, and a good one.
func stayOnHost(next *http.Request, via []*http.Request) error {
	if next.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}
