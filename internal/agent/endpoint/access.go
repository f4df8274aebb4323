package endpoint

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// How long the API server's answers are believed.
const (
	tokenBelieved  = 2 * time.Minute
	permitBelieved = 5 * time.Minute
	denialBelieved = 30 * time.Second
	reviewTimeout  = 10 * time.Second
)

// access settles who calls and what they may do, by asking the API server.
type access struct {
	nodeName string
	who      authenticator.Request
	may      authorizer.UnconditionalAuthorizer
}

func newAccess(options Options, clientCA dynamiccertificates.CAContentProvider) (*access, error) {
	client, err := kubernetes.NewForConfig(options.Client)
	if err != nil {
		return nil, fmt.Errorf("making a client for access reviews: %w", err)
	}
	backoff := &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
	who, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient:            client.AuthenticationV1(),
		TokenAccessReviewTimeout:           reviewTimeout,
		WebhookRetryBackoff:                backoff,
		CacheTTL:                           tokenBelieved,
		ClientCertificateCAContentProvider: clientCA,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("arranging authentication: %w", err)
	}
	may, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             permitBelieved,
		DenyCacheTTL:              denialBelieved,
		WebhookRetryBackoff:       backoff,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("arranging authorization: %w", err)
	}
	return &access{nodeName: options.NodeName, who: who, may: may}, nil
}

// guard lets through only requests of known callers that are permitted.
func (a *access) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger := klog.FromContext(r.Context())
		known, ok, err := a.who.AuthenticateRequest(r)
		if err != nil {
			logger.Info("Authentication failed", "path", r.URL.Path, "err", err)
		}
		if err != nil || !ok {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		questions := attributes(known.User, r, a.nodeName)
		permitted, err := a.permitted(r, questions)
		switch {
		case permitted:
			next.ServeHTTP(w, r)
		case err != nil:
			logger.Error(err, "Authorization failed", "path", r.URL.Path, "user", known.User.GetName())
			http.Error(w, "Authorization error", http.StatusInternalServerError)
		default:
			http.Error(w, refusal(questions), http.StatusForbidden)
		}
	})
}

// permitted says whether one of the questions is answered by yes.
func (a *access) permitted(r *http.Request, questions []authorizer.AttributesRecord) (bool, error) {
	var failure error
	for _, question := range questions {
		decision, _, err := a.may.Authorize(r.Context(), question)
		if decision == authorizer.DecisionAllow {
			return true, nil
		}
		if err != nil {
			failure = err
		}
	}
	return false, failure
}

func refusal(questions []authorizer.AttributesRecord) string {
	first := questions[0]
	var subresources []string
	for _, question := range questions {
		subresources = append(subresources, question.Subresource)
	}
	return fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=%s, subresource(s)=%v)", first.User.GetName(), first.Verb, first.Resource, subresources)
}

// verbs are the API's words for HTTP's methods.
var verbs = map[string]string{
	http.MethodPost: "create", http.MethodGet: "get", http.MethodPut: "update",
	http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// streaming are the paths that run something or reach into a Pod. They ask for
// create whatever the method: a WebSocket always begins with GET, and who may only
// look must not get a shell by it.
var streaming = []string{"exec", "attach", "portForward"}

// subresources are the parts of a node by the first word of the path, the most
// particular first; a yes to one is enough. Everything else is nodes/proxy.
var subresources = map[string][]string{
	"stats":       {"stats"},
	"metrics":     {"metrics"},
	"logs":        {"log"},
	"pods":        {"pods", "proxy"},
	"runningpods": {"pods", "proxy"},
	"healthz":     {"healthz", "proxy"},
	"configz":     {"configz", "proxy"},
}

// attributes are the questions to the API server that a request raises.
func attributes(who user.Info, r *http.Request, node string) []authorizer.AttributesRecord {
	word, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	verb := verbs[r.Method]
	if slices.Contains(streaming, word) {
		verb = "create"
	}
	parts, known := subresources[word]
	if !known {
		parts = []string{"proxy"}
	}
	questions := make([]authorizer.AttributesRecord, len(parts))
	for i, part := range parts {
		questions[i] = authorizer.AttributesRecord{
			User: who, Verb: verb, APIVersion: "v1", Resource: "nodes", Subresource: part,
			Name: node, ResourceRequest: true, Path: r.URL.Path,
		}
	}
	return questions
}
