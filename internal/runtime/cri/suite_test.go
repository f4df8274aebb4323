package cri_test

import (
	"testing"

	"muster.dev/muster/internal/runtime"
	"muster.dev/muster/internal/runtime/cri"
	"muster.dev/muster/internal/runtime/runtimetest"
)

func TestSuite(t *testing.T) {
	runtimetest.Suite(t, func(t testing.TB) runtimetest.Subject {
		c := runtimetest.StartContainerd(t)
		connect := func(t testing.TB) runtime.Runtime { return connectTo(t, c) }
		return runtimetest.Subject{Runtime: connect(t), Reconnect: connect, CgroupParent: c.CgroupParent}
	})
}

func connectTo(t testing.TB, c *runtimetest.Containerd) *cri.Client {
	t.Helper()
	client, err := cri.New(cri.Options{Endpoint: c.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}
