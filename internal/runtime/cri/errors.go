package cri

import (
	"context"
	"errors"
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
	words := errors.New(s.Message())
	switch s.Code() {
	case codes.Unavailable:
		return runtime.WithKind(words, runtime.ErrUnreachable)
	case codes.NotFound:
		return runtime.WithKind(words, runtime.ErrNotFound)
	case codes.DeadlineExceeded:
		return runtime.WithKind(words, runtime.ErrTimedOut, context.DeadlineExceeded)
	case codes.Canceled:
		return runtime.WithKind(words, context.Canceled)
	}
	return words
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

// translatePull gives a failed pull its kinds. It comes after translate; what the
// pull did not find is the image.
func translatePull(err error) error {
	words := err.Error()
	switch {
	case errors.Is(err, runtime.ErrUnreachable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case strings.Contains(words, crierrors.ErrSignatureValidationFailed.Error()):
		return runtime.WithKind(err, runtime.ErrPullFailed, runtime.ErrSignatureInvalid)
	case containsAny(words, registryDown):
		return runtime.WithKind(err, runtime.ErrPullFailed, runtime.ErrRegistryUnavailable)
	case errors.Is(err, runtime.ErrNotFound), containsAny(words, imageMissing):
		return runtime.WithKind(err, runtime.ErrPullFailed, runtime.ErrImageNotFound)
	}
	return runtime.WithKind(err, runtime.ErrPullFailed)
}

func containsAny(s string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}
