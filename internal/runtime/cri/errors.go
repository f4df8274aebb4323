package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	crierrors "k8s.io/cri-api/pkg/errors"

	"muster.dev/muster/internal/runtime"
)

// translate gives an error of any call the kind it has in the seam, where it has
// one; the runtime's own words stay.
func translate(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	message := errors.New(s.Message())
	switch s.Code() {
	case codes.Unavailable:
		return fmt.Errorf("%w: %w", runtime.ErrUnreachable, message)
	case codes.NotFound:
		return fmt.Errorf("%w: %w", runtime.ErrNotFound, message)
	case codes.DeadlineExceeded:
		return fmt.Errorf("%w: %w: %w", runtime.ErrTimedOut, context.DeadlineExceeded, message)
	case codes.Canceled:
		return fmt.Errorf("%w: %w", context.Canceled, message)
	}
	return fmt.Errorf("%w (%s)", message, s.Code())
}

// registryDown are the words, in containerd's and CRI-O's pull errors, of a
// registry that could not be asked. Runtimes older than the RegistryUnavailable
// error say it only in words.
var registryDown = []string{
	crierrors.ErrRegistryUnavailable.Error(),
	"connection refused",
	"no such host",
	"i/o timeout",
	"network is unreachable",
	"no route to host",
	"connection reset by peer",
	"server misbehaving",
	"TLS handshake timeout",
	"502 Bad Gateway",
	"503 Service Unavailable",
	"504 Gateway",
}

// imageMissing are the words of a registry that answered and has no such image,
// or does not say whether it has one.
var imageMissing = []string{
	"not found",
	"manifest unknown",
	"name unknown",
	"repository does not exist",
}

// translatePull gives a failed pull its kind. It comes after translate, which
// does not know that a missing thing here is an image.
func translatePull(err error) error {
	if errors.Is(err, runtime.ErrUnreachable) || errors.Is(err, context.Canceled) {
		return err
	}
	words := err.Error()
	kind := error(nil)
	switch {
	case strings.Contains(words, crierrors.ErrSignatureValidationFailed.Error()):
		kind = runtime.ErrSignatureInvalid
	case containsAny(words, registryDown):
		kind = runtime.ErrRegistryUnavailable
	case errors.Is(err, runtime.ErrNotFound), containsAny(words, imageMissing):
		kind = runtime.ErrImageNotFound
	default:
		return fmt.Errorf("%w: %w", runtime.ErrPullFailed, err)
	}
	return fmt.Errorf("%w: %w: %w", runtime.ErrPullFailed, kind, err)
}

func containsAny(s string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}
