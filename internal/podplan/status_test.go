package podplan

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"muster.dev/muster/internal/reason"
)

var rewrite = flag.Bool("rewrite", false, "write the expected statuses in testdata anew")

// TestStatusGoldens compares whole statuses with those in testdata.
func TestStatusGoldens(t *testing.T) {
	for name, s := range goldens() {
		t.Run(name, func(t *testing.T) {
			got, err := yaml.Marshal(s.status())
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".yaml")
			if *rewrite {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, got) {
				t.Error(cmp.Diff(string(want), string(got)))
			}
		})
	}
}

func goldens() map[string]*scene {
	all := map[string]*scene{}
	add := func(name string, s *scene) *scene {
		all[name] = s
		return s
	}
	s := add("placed", newScene(always, "app x"))
	s.seen.Sandboxes, s.seen.Volumes, s.pod.Status.Phase = nil, Preparation{}, v1.PodPending

	s = add("second-step-runs", newScene(always, "init a", "init b", "app x"))
	s.runs("a", 0)
	s.pass(2 * time.Second)
	s.starts("b")

	s = add("step-in-back-off", newScene(always, "init a", "app x"))
	s.runs("a", 1)
	s.pass(time.Second)
	s.runs("a", 2).Message = "said before it died"
	s.pass(time.Second)

	s = add("image-in-back-off", newScene(never, "init a", "app x"))
	s.seen.Images["a"] = ImageState{Failures: 2, LastFailure: t0, Error: "not found", PulledFor: -1}
	s.pass(6 * time.Second)

	add("ready", readyScene())

	s = add("crash-loop", readyScene())
	s.pass(time.Minute)
	s.runs("x", 1)
	s.ends("s", 137).Reason = "OOMKilled"
	s.starts("s")
	s.starts("x")
	s.pass(time.Second)
	s.ends("x", 1)

	s = add("sandbox-lost", readyScene())
	s.pass(time.Minute)
	s.loseSandbox()

	s = add("readiness-gate-closed", readyScene())
	s.pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/open"}, {ConditionType: "example.com/other"}}
	s.pod.Status.Conditions = append(s.pod.Status.Conditions, v1.PodCondition{Type: "example.com/open", Status: v1.ConditionFalse})

	s = add("step-failed-for-good", newScene(never, "init a", "init b", "app x"))
	s.runs("a", 3)
	s.loseSandbox()

	s = add("succeeded", newScene(never, "init a", "sidecar s", "app x"))
	s.runs("a", 0)
	s.starts("s")
	s.runs("x", 0)
	s.ends("s", 143)
	s.loseSandbox()

	s = add("deleted-while-starting", newScene(always, "app x", "app y"))
	s.runs("x", 0)
	s.delete(30 * time.Second)
	s.loseSandbox()

	s = add("refused", newScene(always, "init a", "app x"))
	s.seen.Sandboxes = nil
	s.seen.Rejected = &reason.Reason{Code: "NodePorts"}
	return all
}

// readyScene is a Pod with one container of each kind, all well, its status
// written a while ago.
func readyScene() *scene {
	s := newScene(always, "init a", "sidecar s", "app x")
	x := s.container("x")
	x.ReadinessProbe = &v1.Probe{}
	x.VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v", ReadOnly: true}, {Name: "w", MountPath: "/w"}}
	s.runs("a", 0)
	s.starts("s")
	s.starts("x")
	s.seen.Probes["x"] = ProbeState{ContainerID: "x0", Started: true, Ready: true}
	s.pod.Status = s.status()
	s.pass(10 * time.Second)
	return s
}

func TestTransitionTimesStayWhileNothingChanges(t *testing.T) {
	s := readyScene()
	if diff := cmp.Diff(s.pod.Status, s.status()); diff != "" {
		t.Errorf("status changed though nothing happened (-before +after):\n%s", diff)
	}
	s.seen.Probes["x"] = ProbeState{ContainerID: "x0", Started: true}
	for _, c := range s.status().Conditions {
		changed := c.LastTransitionTime.Time.Equal(s.now)
		if want := c.Type == v1.PodReady || c.Type == v1.ContainersReady; changed != want {
			t.Errorf("%s: transition now is %v, want %v", c.Type, changed, want)
		}
	}
}

func TestStatusLeavesItsInputAlone(t *testing.T) {
	s := readyScene()
	before := s.pod.DeepCopy()
	s.pass(time.Hour)
	s.ends("x", 1)
	s.status()
	if diff := cmp.Diff(before, s.pod); diff != "" {
		t.Errorf("Status changed the Pod (-before +after):\n%s", diff)
	}
}

func TestForeignConditionsAreKept(t *testing.T) {
	s := readyScene()
	foreign := []v1.PodCondition{
		{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "PreemptionByScheduler"},
		{Type: "example.com/open", Status: v1.ConditionTrue},
	}
	s.pod.Status.Conditions = append(foreign, s.pod.Status.Conditions...)
	s.pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/open"}}
	status := s.status()
	if diff := cmp.Diff(foreign, status.Conditions[:2]); diff != "" {
		t.Errorf("foreign conditions (-want +got):\n%s", diff)
	}
	if ready := condition(status, v1.PodReady); ready.Status != v1.ConditionTrue {
		t.Errorf("Ready with its gate open: %+v", ready)
	}
}

func condition(s v1.PodStatus, kind v1.PodConditionType) v1.PodCondition {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1.PodCondition{}
}

// A new agent has no verdicts of its own yet: what the API says of the very same
// attempt holds until it has.
func TestReadinessSurvivesTheAgentsRestart(t *testing.T) {
	s := readyScene()
	s.container("s").StartupProbe = &v1.Probe{}
	s.seen.Probes = nil
	if got := s.status().ContainerStatuses[0]; !got.Ready || !*got.Started {
		t.Errorf("ready %v, started %v", got.Ready, *got.Started)
	}
	s.want(t)
	s.runs("x", 1)
	s.starts("x")
	if s.status().ContainerStatuses[0].Ready {
		t.Error("another attempt inherits the verdict")
	}
}

func TestHostNetworkPodHasTheNodesAddresses(t *testing.T) {
	s := newScene(always, "app x")
	s.pod.Spec.HostNetwork = true
	s.seen.HostIPs = []string{"192.0.2.1", "2001:db8::1"}
	s.seen.Sandboxes[0].IPs = nil
	s.starts("x")
	got := s.status()
	if got.PodIP != "192.0.2.1" || len(got.PodIPs) != 2 || len(got.HostIPs) != 2 {
		t.Errorf("podIP %s, podIPs %v, hostIPs %v", got.PodIP, got.PodIPs, got.HostIPs)
	}
	if c := condition(got, v1.PodReadyToStartContainers); c.Status != v1.ConditionTrue {
		t.Errorf("%+v", c)
	}
}

func TestRuntimesNameInContainerIDs(t *testing.T) {
	s := newScene(always, "app x")
	s.starts("x")
	s.seen.RuntimeName = "cri-o"
	if got := s.status().ContainerStatuses[0].ContainerID; got != "cri-o://x0" {
		t.Errorf("container ID %s", got)
	}
}

func TestEphemeralContainerStatus(t *testing.T) {
	s := newScene(always, "app x", "ephemeral look")
	if got := s.status().EphemeralContainerStatuses; len(got) != 1 || got[0].State.Waiting == nil {
		t.Fatalf("before it runs: %+v", got)
	}
	s.runs("look", 1)
	if got := s.status().EphemeralContainerStatuses; got[0].State.Terminated == nil || got[0].ContainerID != "containerd://look0" {
		t.Errorf("after it ended: %+v", got)
	}
}

func TestStartTimeIsWrittenOnce(t *testing.T) {
	s := newScene(always, "app x")
	first := s.status().StartTime
	if !first.Time.Equal(s.now) {
		t.Errorf("start time %s, want %s", first, s.now)
	}
	earlier := metav1.NewTime(t0.Add(-time.Hour))
	s.pod.Status.StartTime = &earlier
	if got := s.status().StartTime; !got.Equal(&earlier) {
		t.Errorf("start time changed to %s", got)
	}
}
