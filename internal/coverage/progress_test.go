package coverage_test

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/testkit/build"
)

// containers gives a Pod statuses of containers and takes its readiness away.
func containers(inits []v1.ContainerStatus, mains ...v1.ContainerStatus) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		build.Unready(pod)
		pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = inits, mains
	}
}

func waiting(name, why, message string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: why, Message: message}}}
}

func runs(name string, since time.Duration) v1.ContainerStatus {
	at := metav1.NewTime(build.Start.Add(-since))
	return v1.ContainerStatus{Name: name, State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at}}}
}

func endedWith(name string, code int32) v1.ContainerStatus {
	return v1.ContainerStatus{Name: name, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: "Error"}}}
}

// crashing waits after an end with the code, having been restarted that often.
func crashing(name string, code, restarts int32) v1.ContainerStatus {
	status := waiting(name, "CrashLoopBackOff", "back-off 40s restarting failed container")
	status.RestartCount = restarts
	status.LastTerminationState.Terminated = &v1.ContainerStateTerminated{ExitCode: code, Reason: "OOMKilled"}
	return status
}

func condition(kind v1.PodConditionType, why, message string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: kind, Status: v1.ConditionFalse, Reason: why, Message: message})
	}
}

func notBound(pod *v1.Pod) { pod.Spec.NodeName, pod.Status = "", v1.PodStatus{Phase: v1.PodPending} }

func TestPodReasons(t *testing.T) {
	type inits = []v1.ContainerStatus
	always := v1.ContainerRestartPolicyAlways
	withSidecar := func(pod *v1.Pod) {
		pod.Spec.InitContainers = []v1.Container{{Name: "proxy", RestartPolicy: &always}, {Name: "setup"}}
	}
	started := runs("proxy", time.Hour)
	started.Started = new(true)
	dead := func(node *v1.Node) {
		node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."}}
	}
	for _, row := range []struct {
		name string
		node []func(*v1.Node)
		pod  []func(*v1.Pod)
		want []string
	}{
		{name: "a Ready Pod needs none"},
		{
			name: "C31: no room", pod: []func(*v1.Pod){notBound, condition(v1.PodScheduled, v1.PodReasonUnschedulable, "0/3 nodes are available: 1 Insufficient cpu.")},
			want: []string{"Pod logd-a fits on no node: 0/3 nodes are available: 1 Insufficient cpu."},
		},
		{
			name: "gates", pod: []func(*v1.Pod){notBound, condition(v1.PodScheduled, v1.PodReasonSchedulingGated, "Scheduling is blocked")},
			want: []string{"Pod logd-a waits for its scheduling gates: Scheduling is blocked"},
		},
		{name: "not placed yet", pod: []func(*v1.Pod){notBound}, want: []string{"Pod logd-a waits to be placed on its node"}},
		{name: "rejected by its node", pod: []func(*v1.Pod){build.Failed("OutOfcpu")}, want: []string{"Pod logd-a failed: OutOfcpu"}},
		{
			name: "stopping for ever on a dead node", node: []func(*v1.Node){dead}, pod: []func(*v1.Pod){build.Terminating},
			want: []string{
				"node a is not ready: NodeStatusUnknown: Kubelet stopped posting node status.",
				"Pod logd-a is being deleted since 2027-03-29T12:00:00Z",
			},
		},
		{name: "not started yet", pod: []func(*v1.Pod){build.Unready}, want: []string{"the node has not started Pod logd-a yet"}},
		{
			name: "an init step at work", pod: []func(*v1.Pod){containers(inits{runs("setup", time.Minute)}, waiting("main", "PodInitializing", ""))},
			want: []string{"the Pod's init containers have not all ended with exit code 0"},
		},
		{
			name: "C74: an init step that does not end", pod: []func(*v1.Pod){containers(inits{runs("setup", 20*time.Minute)}, waiting("main", "PodInitializing", ""))},
			want: []string{"init container setup has been running for 20m0s"},
		},
		{
			name: "C74: unless it is a sidecar",
			pod:  []func(*v1.Pod){containers(inits{started, endedWith("setup", 0)}, waiting("main", "ContainerCreating", "")), withSidecar},
			want: []string{"the container is being created"},
		},
		{
			name: "an init step that fails", pod: []func(*v1.Pod){containers(inits{endedWith("one", 0), crashing("two", 3, 4)}, waiting("main", "PodInitializing", ""))},
			want: []string{"init container two ended with exit code 3 (OOMKilled), 5 attempt(s) so far"},
		},
		{
			name: "C62: an init image that cannot be pulled", pod: []func(*v1.Pod){containers(inits{waiting("one", "ImagePullBackOff", "Back-off pulling image \"nope\"")})},
			want: []string{"the image of container one cannot be pulled: Back-off pulling image \"nope\""},
		},
		{
			name: "a crash loop", pod: []func(*v1.Pod){containers(nil, crashing("main", 137, 2))},
			want: []string{"container main ended with exit code 137 (OOMKilled), 3 attempt(s) so far"},
		},
		{
			name: "two containers, each with its own", pod: []func(*v1.Pod){containers(nil, runs("main", time.Hour), waiting("side", "CreateContainerConfigError", "secret \"key\" not found"))},
			want: []string{"container main runs but is not ready", "container side cannot be configured: secret \"key\" not found"},
		},
		{
			name: "a word that is not known is passed on", pod: []func(*v1.Pod){containers(nil, waiting("main", "NewWord", "with details"))},
			want: []string{"container main waits: NewWord: with details"},
		},
		{
			name: "a readiness gate", pod: []func(*v1.Pod){
				containers(nil, v1.ContainerStatus{Name: "main", Ready: true}), condition("balanced", "NotInPool", ""),
				func(pod *v1.Pod) { pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "balanced"}} },
			},
			want: []string{"readiness gate balanced is not true: NotInPool"},
		},
		{
			name: "a node that has never reported", node: []func(*v1.Node){func(node *v1.Node) { node.Status.Conditions = nil }}, pod: []func(*v1.Pod){build.Unready},
			want: []string{"node a is not ready: it has not reported yet"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			pod := build.DaemonPod(build.DaemonSet("logd"), "a", "h", row.pod...)
			var got []string
			for _, each := range coverage.PodReasons(pod, build.Node("a", row.node...), build.Start) {
				got = append(got, each.Text())
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("the reasons are %q, should be %q", got, row.want)
			}
		})
	}
}
