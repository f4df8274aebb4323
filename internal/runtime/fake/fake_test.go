package fake_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	testclock "k8s.io/utils/clock/testing"

	seam "muster.dev/muster/internal/runtime"
	"muster.dev/muster/internal/runtime/fake"
	"muster.dev/muster/internal/runtime/runtimetest"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func sandboxConfig(uid string) *cri.PodSandboxConfig {
	return &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: uid, Namespace: "test", Uid: uid},
		Labels:   map[string]string{"io.kubernetes.pod.uid": uid},
	}
}

func containerConfig(name string, attempt uint32) *cri.ContainerConfig {
	return &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: name, Attempt: attempt},
		Image:    &cri.ImageSpec{Image: "app:1"},
		LogPath:  fmt.Sprintf("%s/%d.log", name, attempt),
	}
}

// start runs a sandbox for uid and starts one container in it.
func start(t testing.TB, r *fake.Runtime, uid string, attempt uint32) (sandboxID, id string) {
	t.Helper()
	r.AddImage("app:1", fake.Pull{})
	sandboxID, err := r.RunSandbox(t.Context(), sandboxConfig(uid), "")
	if err != nil {
		t.Fatal(err)
	}
	if id, err = r.CreateContainer(t.Context(), sandboxID, containerConfig("main", attempt), nil); err != nil {
		t.Fatal(err)
	}
	if err := r.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return sandboxID, id
}

func only(t testing.TB, r *fake.Runtime, uid types.UID) seam.Container {
	t.Helper()
	pod, err := r.Pod(t.Context(), uid)
	if err != nil || len(pod.Containers) != 1 {
		t.Fatalf("Pod() = %+v, %v, want one container", pod, err)
	}
	return pod.Containers[0]
}

func TestContainersLiveByTheClock(t *testing.T) {
	clock := testclock.NewFakeClock(epoch)
	r := fake.New(fake.Options{Clock: clock, Script: fake.Script{Container: func(s fake.Start) fake.Run {
		return fake.Run{Ends: true, After: 10 * time.Second, ExitCode: int32(s.Attempt), MilliCPU: 500, MemoryBytes: 7}
	}}})
	_, id := start(t, r, "a", 3)
	clock.Step(9 * time.Second)
	if c := only(t, r, "a"); c.State != seam.Running {
		t.Errorf("after 9 s container is %+v, want running", c)
	}
	stats, err := r.Stats(t.Context())
	if err != nil || stats[id].CPUNanos != 4_500_000_000 || stats[id].WorkingSet != 7 {
		t.Errorf("Stats() = %+v, %v, want 9 s at half a CPU", stats, err)
	}
	events := r.Events(t.Context())
	clock.Step(time.Second)
	for only(t, r, "a").State != seam.Exited {
		<-events
	}
	if c := only(t, r, "a"); c.ExitCode != 3 || !c.FinishedAt.Equal(epoch.Add(10*time.Second)) {
		t.Errorf("container is %+v, want ended at 10 s with its attempt's code", c)
	}
	if clock.HasWaiters() {
		t.Error("a timer is left though nothing is due")
	}
}

func TestTimersFireInOrder(t *testing.T) {
	clock := testclock.NewFakeClock(epoch)
	r := fake.New(fake.Options{Clock: clock, Script: fake.Script{Container: func(s fake.Start) fake.Run {
		seconds := map[string]time.Duration{"late": 30, "early": 10, "middle": 20}[s.Sandbox.Metadata.Uid]
		return fake.Run{Ends: true, After: seconds * time.Second}
	}}})
	for _, uid := range []string{"late", "early", "middle"} {
		start(t, r, uid, 0)
	}
	events := r.Events(t.Context())
	<-events
	for _, uid := range []types.UID{"early", "middle", "late"} {
		clock.Step(10 * time.Second)
		if e := <-events; e.PodUID != uid {
			t.Errorf("event is %+v, want the end of %s", e, uid)
		}
	}
}

func TestRefusals(t *testing.T) {
	no := errors.New("no")
	r := fake.New(fake.Options{Script: fake.Script{
		Sandbox: func(c *cri.PodSandboxConfig) (time.Duration, error) {
			if c.Metadata.Uid == "bad" {
				return 0, no
			}
			return 0, nil
		},
		Container: func(s fake.Start) fake.Run {
			if s.Attempt == 0 {
				return fake.Run{Refusal: no}
			}
			return fake.Run{}
		},
	}})
	r.AddImage("app:1", fake.Pull{})
	if _, err := r.RunSandbox(t.Context(), sandboxConfig("bad"), ""); !errors.Is(err, no) {
		t.Errorf("RunSandbox() = %v, want the refusal", err)
	}
	if _, err := r.RunSandbox(t.Context(), sandboxConfig("good"), "kata"); err == nil {
		t.Error("an unknown handler was taken")
	}
	box, err := r.RunSandbox(t.Context(), sandboxConfig("good"), "")
	if err != nil {
		t.Fatal(err)
	}
	first, err := r.CreateContainer(t.Context(), box, containerConfig("main", 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.StartContainer(t.Context(), first); !errors.Is(err, no) {
		t.Errorf("StartContainer() = %v, want the refusal", err)
	}
	if c := only(t, r, "good"); c.State != seam.Exited || c.ExitCode != 128 || c.Reason != "StartError" {
		t.Errorf("container is %+v, want ended with StartError", c)
	}
}

func TestPullsFollowTheScript(t *testing.T) {
	clock := testclock.NewFakeClock(epoch)
	r := fake.New(fake.Options{Clock: clock, Script: fake.Script{Pull: func(_ string, nth int) fake.Pull {
		if nth < 3 {
			return fake.Pull{Failure: seam.ErrImageNotFound}
		}
		return fake.Pull{Delay: time.Minute, Bytes: 5}
	}}})
	for range 2 {
		if _, err := r.PullImage(t.Context(), "app:1", nil, nil); !errors.Is(err, seam.ErrImageNotFound) || !errors.Is(err, seam.ErrPullFailed) {
			t.Errorf("PullImage() = %v, want image not found", err)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := r.PullImage(t.Context(), "app:1", nil, nil)
		done <- err
	}()
	runtimetest.Await(t, "the pull to wait", func() (bool, string) { return clock.HasWaiters(), "nothing waits" })
	if image, _ := r.Image(t.Context(), "app:1"); image != nil {
		t.Errorf("image is there before its pull ended: %+v", image)
	}
	clock.Step(time.Minute)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	image, err := r.Image(t.Context(), "docker.io/library/app:1")
	if err != nil || image == nil || image.Bytes != 5 || r.Pulls("app:1") != 3 {
		t.Errorf("Image() = %+v, %v after %d pulls", image, err, r.Pulls("app:1"))
	}
}

func TestAddresses(t *testing.T) {
	r := fake.New(fake.Options{PodCIDR: netip.MustParsePrefix("10.1.2.0/29")})
	var boxes, addresses []string
	run := func(i int) error {
		id, err := r.RunSandbox(t.Context(), sandboxConfig(fmt.Sprint(i)), "")
		if err != nil {
			return err
		}
		pod, err := r.Pod(t.Context(), types.UID(fmt.Sprint(i)))
		boxes, addresses = append(boxes, id), append(addresses, pod.Sandboxes[0].IPs...)
		return err
	}
	for i := range 6 {
		if err := run(i); err != nil {
			t.Fatal(err)
		}
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(addresses))); len(unique) != 6 || unique[0] != "10.1.2.2" {
		t.Errorf("addresses are %v, want six from 10.1.2.2 on", addresses)
	}
	if err := run(6); err == nil || !strings.Contains(err.Error(), "10.1.2.0/29") {
		t.Errorf("seventh sandbox: %v, want no address left", err)
	}
	if err := r.StopSandbox(t.Context(), boxes[2]); err != nil {
		t.Fatal(err)
	}
	if err := run(7); err != nil || addresses[6] != addresses[2] {
		t.Errorf("new sandbox has %v, %v, want the address given back", addresses[6:], err)
	}
}

func TestLogFiles(t *testing.T) {
	for _, on := range []bool{true, false} {
		r := fake.New(fake.Options{Clock: testclock.NewFakeClock(epoch), Logs: on, Script: fake.Script{Container: func(fake.Start) fake.Run {
			return fake.Run{Output: []string{"one", "two"}}
		}}})
		r.AddImage("app:1", fake.Pull{})
		config := sandboxConfig("a")
		config.LogDirectory = t.TempDir()
		box, err := r.RunSandbox(t.Context(), config, "")
		if err != nil {
			t.Fatal(err)
		}
		id, err := r.CreateContainer(t.Context(), box, containerConfig("main", 2), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.StartContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(config.LogDirectory, "main/2.log"))
		want := "2030-01-01T00:00:00Z stdout F one\n2030-01-01T00:00:00Z stdout F two\n"
		if on && string(text) != want {
			t.Errorf("log is %q, %v, want %q", text, err, want)
		}
		if !on && !os.IsNotExist(err) {
			t.Errorf("a log was written: %q, %v", text, err)
		}
	}
}
