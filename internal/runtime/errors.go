package runtime

import "errors"

// What a call may fail with, for errors.Is; the runtime's own words are in the
// message. Any other failure is the runtime's refusal of this one request.
var (
	// ErrUnreachable: nothing listens, or the connection broke. Whether the
	// request took effect is unknown; read again before repeating it.
	ErrUnreachable = errors.New("container runtime unreachable")
	// ErrTimedOut: the call, or the command of an ExecSync, outran its time.
	ErrTimedOut = errors.New("timed out")
	// ErrNotFound: the sandbox or container named in the call is gone. Stop and
	// Remove never return it.
	ErrNotFound = errors.New("no such sandbox or container")
	// ErrInvalidImageName: the name is no image reference at all.
	ErrInvalidImageName = errors.New("invalid image name")
	// ErrImageNotFound: the registry answered, and has no such image for us.
	ErrImageNotFound = errors.New("image not found")
	// ErrRegistryUnavailable: the registry did not answer.
	ErrRegistryUnavailable = errors.New("image registry unavailable")
	// ErrSignatureInvalid: the image is refused by the signature policy.
	ErrSignatureInvalid = errors.New("image signature invalid")
	// ErrPullFailed: fetching an image failed; also true of the image and registry
	// errors above when they come from PullImage.
	ErrPullFailed = errors.New("image pull failed")
)

// WithKind gives err kinds, for errors.Is, and leaves its text alone: that text ends in
// Pod statuses, where the runtime's own words serve best.
func WithKind(err error, kinds ...error) error {
	return &kindError{error: err, kinds: kinds}
}

type kindError struct {
	error
	kinds []error
}

func (e *kindError) Unwrap() []error { return append([]error{e.error}, e.kinds...) }
