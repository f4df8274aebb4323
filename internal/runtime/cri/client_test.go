package cri

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
)

func TestErrorsHaveKinds(t *testing.T) {
	kinds := []error{runtime.ErrUnreachable, runtime.ErrTimedOut, runtime.ErrNotFound, context.Canceled}
	for _, test := range []struct {
		code codes.Code
		want error
	}{
		{codes.Unavailable, runtime.ErrUnreachable},
		{codes.DeadlineExceeded, runtime.ErrTimedOut},
		{codes.NotFound, runtime.ErrNotFound},
		{codes.Canceled, context.Canceled},
		{codes.Unknown, nil},
		{codes.InvalidArgument, nil},
	} {
		t.Run(test.code.String(), func(t *testing.T) {
			c := (&server{list: func(context.Context) error { return status.Error(test.code, "the words") }}).client(t)
			_, err := c.List(t.Context())
			for _, kind := range kinds {
				if errors.Is(err, kind) != (kind == test.want) {
					t.Errorf("errors.Is(%v, %v) = %t", err, kind, !(kind == test.want))
				}
			}
			if want := "listing containers: the words"; err == nil || err.Error() != want {
				t.Errorf("error reads %q, want %q", err, want)
			}
		})
	}
}

func TestUnreachableWithoutServer(t *testing.T) {
	c := clientOf(t, filepath.Join(t.TempDir(), "nobody"), 10*time.Second)
	if _, err := c.Info(t.Context()); !errors.Is(err, runtime.ErrUnreachable) {
		t.Errorf("Info() = %v, want unreachable", err)
	}
	if err := c.StopSandbox(t.Context(), "x"); !errors.Is(err, runtime.ErrUnreachable) {
		t.Errorf("StopSandbox() = %v, want unreachable and not success", err)
	}
}

func TestCallsEndInTime(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	socket := filepath.Join(t.TempDir(), "s")
	(&server{list: hang}).serve(t, socket)
	c := clientOf(t, socket, 50*time.Millisecond)
	if _, err := c.List(t.Context()); !errors.Is(err, runtime.ErrTimedOut) {
		t.Errorf("List() = %v, want timed out", err)
	}
}

func TestNewRefusesOtherAddresses(t *testing.T) {
	for _, endpoint := range []string{"", "/run/containerd/containerd.sock", "tcp://127.0.0.1:1"} {
		if _, err := New(Options{Endpoint: endpoint}); err == nil {
			t.Errorf("New() took %q", endpoint)
		}
	}
}

func TestStatusOfNewerAndOlderRuntimes(t *testing.T) {
	conditions := &criapi.RuntimeStatus{Conditions: []*criapi.RuntimeCondition{
		{Type: criapi.RuntimeReady, Status: true},
		{Type: criapi.NetworkReady, Message: "cni plugin not initialized"},
	}}
	systemd := &criapi.RuntimeConfigResponse{Linux: &criapi.LinuxRuntimeConfiguration{CgroupDriver: criapi.CgroupDriver_SYSTEMD}}
	want := runtime.Status{RuntimeReady: true, NetworkMessage: "cni plugin not initialized"}
	for name, test := range map[string]struct {
		answer   *criapi.StatusResponse
		config   *criapi.RuntimeConfigResponse
		handlers []string
		driver   string
		strict   bool
	}{
		"says it in its answers": {
			answer: &criapi.StatusResponse{RuntimeHandlers: []*criapi.RuntimeHandler{{Name: ""}, {Name: "kata"}},
				Features: &criapi.RuntimeFeatures{SupplementalGroupsPolicy: true}},
			config:   systemd,
			handlers: []string{"", "kata"}, driver: "systemd", strict: true,
		},
		"prints its configuration": {
			answer: &criapi.StatusResponse{Info: map[string]string{
				"config": `{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{"SystemdCgroup":true}},"kata":{}}}}`}},
			handlers: []string{"", "kata", "runc"}, driver: "systemd",
		},
		"prints no driver": {
			answer: &criapi.StatusResponse{Info: map[string]string{
				"config": `{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":null}}}}`}},
			handlers: []string{"", "runc"}, driver: "cgroupfs",
		},
		"prints nothing of use": {
			answer:   &criapi.StatusResponse{Info: map[string]string{"config": "?"}},
			handlers: []string{""}, driver: "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.answer.Status = conditions
			s := &server{status: func(*criapi.StatusRequest) (*criapi.StatusResponse, error) { return test.answer, nil }}
			if test.config != nil {
				s.config = func() (*criapi.RuntimeConfigResponse, error) { return test.config, nil }
			}
			want := want
			want.Handlers, want.CgroupDriver, want.StrictGroups = test.handlers, test.driver, test.strict
			if got, err := s.client(t).Status(t.Context()); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("Status() = %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestPullErrorsHaveKinds(t *testing.T) {
	kinds := []error{runtime.ErrImageNotFound, runtime.ErrRegistryUnavailable, runtime.ErrSignatureInvalid}
	for words, want := range map[string]error{
		"RegistryUnavailable: pinging the registry":                                  runtime.ErrRegistryUnavailable,
		"dial tcp: lookup reg.example: no such host":                                 runtime.ErrRegistryUnavailable,
		"dial tcp 10.0.0.1:443: i/o timeout":                                         runtime.ErrRegistryUnavailable,
		"SignatureValidationFailed: no signature":                                    runtime.ErrSignatureInvalid,
		"reading manifest: manifest unknown":                                         runtime.ErrImageNotFound,
		"pull access denied, repository does not exist or may require authorization": runtime.ErrImageNotFound,
		"unexpected status: 403 Forbidden":                                           nil,
	} {
		err := translatePull(translate(status.Error(codes.Unknown, words)))
		if !errors.Is(err, runtime.ErrPullFailed) {
			t.Errorf("%q is no failed pull", words)
		}
		for _, kind := range kinds {
			if errors.Is(err, kind) != (kind == want) {
				t.Errorf("errors.Is(%q, %v) = %t", words, kind, !(kind == want))
			}
		}
	}
}
