package agent

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
	"muster.dev/muster/internal/runtime/fake"
)

// A Pod whose config map comes late waits, says so, and goes on by itself.
func TestPodWaitsForItsConfigMap(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		defer n.start(t)()
		pod := testPod(apps("main"), func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "conf", VolumeSource: v1.VolumeSource{
				ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "late"}},
			}}}
		})
		n.api.create(t, pod)
		n.awaitEvent(t, pod, "FailedMount")
		time.Sleep(time.Minute)
		if got := n.api.get(pod); got.Status.Phase != v1.PodPending || waitingReason(got) != "ContainerCreating" {
			t.Errorf("while it waits: %s", describe(got))
		}
		config := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "late"}, Data: map[string]string{"a": "b"}}
		if _, err := n.api.CoreV1().ConfigMaps("default").Create(context.Background(), config, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		n.await(t, pod, retryLast+time.Second, "Ready", ready)
	})
}

// The same for a config map that only the environment names.
func TestContainerWaitsForItsEnvironment(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		defer n.start(t)()
		pod := testPod(apps("main"), func(p *v1.Pod) {
			p.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{
				LocalObjectReference: v1.LocalObjectReference{Name: "late"},
			}}}
		})
		n.api.create(t, pod)
		n.await(t, pod, time.Minute, "waiting as CreateContainerConfigError", func(p *v1.Pod) bool {
			return waitingReason(p) == "CreateContainerConfigError"
		})
		config := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "late"}}
		if _, err := n.api.CoreV1().ConfigMaps("default").Create(context.Background(), config, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		n.await(t, pod, time.Minute, "Ready", ready)
	})
}

// A container that fails its liveness probe is ended and started again.
func TestLivenessProbeRestarts(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		began := time.Now()
		n.runtime.SetScript(fake.Script{Container: n.started, Exec: func(_ *cri.ContainerConfig, command []string) fake.Exec {
			if time.Since(began) > 20*time.Second && time.Since(began) < 40*time.Second {
				return fake.Exec{Result: runtime.ExecResult{ExitCode: 1, Stdout: []byte("sick")}}
			}
			return fake.Exec{}
		}})
		defer n.start(t)()
		pod := testPod(apps("main"), func(p *v1.Pod) {
			p.Spec.Containers[0].LivenessProbe = &v1.Probe{
				ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"check"}}},
				PeriodSeconds: 5, TimeoutSeconds: 1, FailureThreshold: 2, SuccessThreshold: 1,
			}
		})
		n.api.create(t, pod)
		n.await(t, pod, 10*time.Second, "Ready", ready)
		n.await(t, pod, time.Minute, "restarted", func(p *v1.Pod) bool {
			return ready(p) && p.Status.ContainerStatuses[0].RestartCount > 0
		})
		n.awaitEvent(t, pod, "Unhealthy")
		n.awaitEvent(t, pod, "Killing")
	})
}

// Readiness is the probe's: the Pod runs, and is Ready once it says so.
func TestReadinessProbeDecidesReady(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		began := time.Now()
		n.runtime.SetScript(fake.Script{Container: n.started, Exec: func(*cri.ContainerConfig, []string) fake.Exec {
			if time.Since(began) < 12*time.Second {
				return fake.Exec{Result: runtime.ExecResult{ExitCode: 1}}
			}
			return fake.Exec{}
		}})
		defer n.start(t)()
		pod := testPod(apps("main"), func(p *v1.Pod) {
			p.Spec.Containers[0].ReadinessProbe = &v1.Probe{
				ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"check"}}},
				PeriodSeconds: 5, TimeoutSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1,
			}
		})
		n.api.create(t, pod)
		n.await(t, pod, 5*time.Second, "running, not Ready", func(p *v1.Pod) bool {
			return p.Status.Phase == v1.PodRunning && !isReady(p)
		})
		n.await(t, pod, 20*time.Second, "Ready", ready)
		if took := time.Since(began); took < 12*time.Second {
			t.Errorf("Ready after %v", took)
		}
		if want := []string{"main/0"}; !slices.Equal(n.order(), want) {
			t.Errorf("started %v, want %v", n.order(), want)
		}
	})
}

// A sidecar runs beside the app, starts before it and ends after it.
func TestSidecarOutlivesTheApp(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		always := v1.ContainerRestartPolicyAlways
		n.script = both(endsAfter(5*time.Second, 0, "main"))
		defer n.start(t)()
		pod := testPod(inits("side"), apps("main"), never, func(p *v1.Pod) { p.Spec.InitContainers[0].RestartPolicy = &always })
		n.api.create(t, pod)
		got := n.await(t, pod, time.Minute, "Succeeded", inPhase(v1.PodSucceeded))
		if want := []string{"side/0", "main/0"}; !slices.Equal(n.order(), want) {
			t.Errorf("started %v, want %v", n.order(), want)
		}
		side, app := got.Status.InitContainerStatuses[0].State.Terminated, got.Status.ContainerStatuses[0].State.Terminated
		if side == nil || app == nil || side.FinishedAt.Before(&app.FinishedAt) {
			t.Errorf("the sidecar ended %+v, the app %+v", side, app)
		}
	})
}

// An image that the runtime cannot even look up leaves its Pod waiting with the
// reason, and able to end.
func TestImageThatCannotBeLookedUp(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		config := n.config
		config.Runtime = blindRuntime{n.runtime}
		defer n.startOn(t, config)()
		time.Sleep(100 * time.Millisecond)
		for want, image := range map[string]string{
			"InvalidImageName": "no name!", "ErrImagePull": "example.test/unlucky:1",
		} {
			pod := testPod(apps("main"))
			useImage(pod, image)
			n.api.create(t, pod)
			n.await(t, pod, time.Minute, "waiting as "+want, func(p *v1.Pod) bool { return waitingReason(p) == want })
			n.api.delete(t, pod, 1)
			n.awaitDisk(t, pod, time.Minute, func(d disk) bool { return d == disk{} })
		}
	})
}

// blindRuntime can neither look images up nor fetch them.
type blindRuntime struct{ runtime.Runtime }

func (blindRuntime) Image(context.Context, string) (*runtime.Image, error) {
	return nil, errors.New("the image store is broken")
}

func (blindRuntime) PullImage(context.Context, string, *cri.AuthConfig, *cri.PodSandboxConfig) (string, error) {
	return "", errors.New("the image store is broken")
}
