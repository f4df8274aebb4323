package apiserver

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// cutStreams ends the answers that have no end of their own (followed logs, exec,
// attach, port-forward, proxied calls) as soon as the server stops. The libraries
// drain short requests and end watches, but leave these open.
func cutStreams(stopping context.Context, longRunning request.LongRunningRequestCheck, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || info.Verb == "watch" || !longRunning(r, info) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(stopping, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// handlerChain is the stock chain of filters with cutStreams inside.
func handlerChain(stopping context.Context) func(http.Handler, *genericapiserver.Config) http.Handler {
	return func(api http.Handler, c *genericapiserver.Config) http.Handler {
		return genericapiserver.DefaultBuildHandlerChain(cutStreams(stopping, c.LongRunningFunc, api), c)
	}
}
