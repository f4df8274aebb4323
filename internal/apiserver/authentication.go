package apiserver

import (
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/union"
)

// openPaths are the only ones answered to a caller without credentials.
var openPaths = []string{"/healthz", "/livez", "/readyz"}

// withOpenPaths lets anonymous callers reach the health endpoints. For every
// other path a request without credentials is unauthorized, whatever roles say.
func withOpenPaths(credentials authenticator.Request) authenticator.Request {
	conditions := make([]apiserver.AnonymousAuthCondition, 0, len(openPaths))
	for _, path := range openPaths {
		conditions = append(conditions, apiserver.AnonymousAuthCondition{Path: path})
	}
	return union.NewFailOnError(credentials, anonymous.NewAuthenticator(conditions))
}
