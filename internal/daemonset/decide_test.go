package daemonset_test

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/daemonset"
	"muster.dev/muster/internal/reason"
	"muster.dev/muster/internal/testkit/build"
)

// running is a fleet whose set runs Ready everywhere.
func running(t *testing.T, set *appsv1.DaemonSet, nodes ...string) *fleet {
	t.Helper()
	f := newFleet(set, nodes...)
	if !f.settle(true) {
		t.Fatalf("the fleet does not come to rest: %s", f.show())
	}
	return f
}

func expectShow(t *testing.T, f *fleet, want string) {
	t.Helper()
	if got := f.show(); got != want {
		t.Errorf("the fleet shows %q, should show %q", got, want)
	}
}

func deletions(plan daemonset.Plan) []string {
	var got []string
	for _, d := range plan.Delete {
		got = append(got, coverage.TargetOf(d.Pod)+" "+string(d.Reason.Code))
	}
	return got
}

func TestOnePodOnEveryEligibleNode(t *testing.T) {
	f := newFleet(build.DaemonSet("logd"), "a", "b", "c")
	build.Tainted("gpu=true:NoSchedule")(f.nodes["c"])
	plan := f.decide()
	if len(plan.Create) != 2 || plan.History.Create == nil {
		t.Fatalf("%d Pods and revision %v, should be two and one", len(plan.Create), plan.History.Create)
	}
	for _, creation := range plan.Create {
		if creation.Pod.Spec.NodeName != creation.Node || creation.Reason.Code != reason.NodeUncovered {
			t.Errorf("Pod for %s is bound to %q because %s", creation.Node, creation.Pod.Spec.NodeName, creation.Reason)
		}
	}
	f.apply(plan)
	if again := f.decide(); again.Acts() {
		t.Errorf("the applied plan is followed by another: %+v", again)
	}
}

func TestAPodIsBoundOnlyWhereItFits(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*appsv1.DaemonSet)
		fits   daemonset.Fits
		bound  bool
	}{
		{name: "it fits", fits: func(*v1.Pod, *v1.Node) []reason.Reason { return nil }, bound: true},
		{name: "C31: no room leaves it to placement", fits: func(*v1.Pod, *v1.Node) []reason.Reason { return []reason.Reason{{Code: reason.PodUnschedulable}} }},
		{name: "nobody to ask leaves it to placement"},
		{
			name: "gates hold it", fits: func(*v1.Pod, *v1.Node) []reason.Reason { return nil },
			change: func(set *appsv1.DaemonSet) {
				set.Spec.Template.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}}
			},
		},
		{
			name: "another scheduler places it", fits: func(*v1.Pod, *v1.Node) []reason.Reason { return nil },
			change: func(set *appsv1.DaemonSet) { set.Spec.Template.Spec.SchedulerName = "mine" },
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			set := build.DaemonSet("logd")
			if row.change != nil {
				row.change(set)
			}
			f := newFleet(set, "a")
			f.fits = row.fits
			plan := f.decide()
			if len(plan.Create) != 1 {
				t.Fatalf("%d Pods are created, should be one whatever the room", len(plan.Create))
			}
			pod := plan.Create[0].Pod
			if bound := pod.Spec.NodeName != ""; bound != row.bound || coverage.TargetOf(pod) != "a" {
				t.Errorf("bound %v and meant for %q, should be %v and a", bound, coverage.TargetOf(pod), row.bound)
			}
			if plan.Status.DesiredNumberScheduled != 1 {
				t.Error("a node without room is not counted as desired")
			}
		})
	}
}

func TestPodsThatAreTooMuch(t *testing.T) {
	set := build.DaemonSet("logd")
	for _, row := range []struct {
		name string
		node []func(*v1.Node)
		set  []func(*appsv1.DaemonSet)
		pods []*v1.Pod
		want []string
	}{
		{
			name: "C41: of several Pods the oldest stays",
			pods: []*v1.Pod{
				build.DaemonPod(set, "a", "h", build.Named("young"), build.Created(2*time.Second)),
				build.DaemonPod(set, "a", "h", build.Named("old")),
				build.DaemonPod(set, "a", "h", build.Named("middle"), build.Created(time.Second)),
			},
			want: []string{"middle DuplicatePod", "young DuplicatePod"},
		},
		{
			name: "C41: a bound Pod stays before an older unbound one",
			pods: []*v1.Pod{
				build.DaemonPod(set, "a", "h", build.Named("bound"), build.Created(time.Second)),
				build.DaemonPod(set, "a", "h", build.Named("unbound"), unbound("a")),
			},
			want: []string{"unbound DuplicatePod"},
		},
		{
			name: "C33: NoSchedule added later leaves the Pod", node: []func(*v1.Node){build.Tainted("new:NoSchedule")},
			pods: []*v1.Pod{build.DaemonPod(set, "a", "h")},
		},
		{
			name: "C33: NoExecute removes it", node: []func(*v1.Node){build.Tainted("new:NoExecute")},
			pods: []*v1.Pod{build.DaemonPod(set, "a", "h")}, want: []string{"logd-a NodeNotWanted"},
		},
		{
			name: "C37: a node that is no longer selected loses its Pod", set: []func(*appsv1.DaemonSet){build.Selecting("role=x")},
			pods: []*v1.Pod{build.DaemonPod(set, "a", "h")}, want: []string{"logd-a NodeNotWanted"},
		},
		{
			name: "C32: also a Pod that is only waiting", set: []func(*appsv1.DaemonSet){build.Selecting("role=x")},
			pods: []*v1.Pod{build.DaemonPod(set, "a", "h", unbound("a"))}, want: []string{"logd-a NodeNotWanted"},
		},
		{
			name: "a Pod that waits for a node that is gone goes",
			pods: []*v1.Pod{build.DaemonPod(set, "a", "h"), build.DaemonPod(set, "gone", "h", unbound("gone"))}, want: []string{"logd-gone NodeGone"},
		},
		{
			name: "a Pod bound to a node that is gone is for Pod collection",
			pods: []*v1.Pod{build.DaemonPod(set, "a", "h"), build.DaemonPod(set, "gone", "h")},
		},
		{
			name: "what is stopping already is left to stop", set: []func(*appsv1.DaemonSet){build.Selecting("role=x")},
			pods: []*v1.Pod{build.DaemonPod(set, "a", "h", build.Terminating)},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := newFleet(build.DaemonSet("logd", append(row.set, onDelete)...))
			f.nodes["a"] = build.Node("a", row.node...)
			for _, pod := range row.pods {
				f.pods[pod.Name] = pod
			}
			plan := f.decide()
			var got []string
			for _, d := range plan.Delete {
				got = append(got, d.Pod.Name+" "+string(d.Reason.Code))
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("deleted are %q, should be %q", got, row.want)
			}
			if len(plan.Create) != 0 {
				t.Errorf("a Pod is created beside the ones that are there: %+v", plan.Create[0].Pod)
			}
		})
	}
}

func onDelete(set *appsv1.DaemonSet) {
	set.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
}

// unbound makes a Pod wait for the node it was meant for.
func unbound(node string) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		pod.Spec.NodeName = ""
		pod.Status = v1.PodStatus{Phase: v1.PodPending}
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{node},
			}}}},
		}}}
	}
}

func TestC17FailedPodsAreReplacedWithGrowingBackOff(t *testing.T) {
	f := newFleet(build.DaemonSet("logd"), "a")
	f.settle(true)
	var gaps []time.Duration
	last := f.now
	for len(gaps) < 13 {
		f.change(f.on("a").Name, build.Failed("OutOfcpu"))
		plan := f.decide()
		if len(plan.Delete) == 0 {
			if plan.Next.IsZero() || !plan.Next.After(f.now) {
				t.Fatalf("a failed Pod waits with nothing to wait for: next is %v at %v", plan.Next, f.now)
			}
			f.now = plan.Next
			plan = f.decide()
		}
		if got := deletions(plan); !slices.Equal(got, []string{"a FailedPod"}) {
			t.Fatalf("at its time the failed Pod is not replaced: %q", got)
		}
		gaps, last = append(gaps, f.now.Sub(last)), f.now
		f.apply(plan)
		f.gone()
		f.apply(f.decide())
	}
	s := time.Second
	want := []time.Duration{0, s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 64 * s, 128 * s, 256 * s, 512 * s, 900 * s, 900 * s}
	if !slices.Equal(gaps, want) {
		t.Errorf("replaced after %v, should be %v", gaps, want)
	}
	f.template(build.Image("daemon:v2"))
	f.apply(f.decide())
	f.gone()
	f.apply(f.decide())
	f.change(f.on("a").Name, build.Failed("OutOfcpu"))
	if plan := f.decide(); len(plan.Delete) != 1 {
		t.Errorf("a new revision inherits the back-off of the old one: %+v", plan.Failures)
	}
}

func TestASetThatIsBeingDeletedIsLeftAlone(t *testing.T) {
	f := newFleet(build.DaemonSet("logd"), "a")
	at := metav1.NewTime(f.now)
	f.set.DeletionTimestamp = &at
	if plan := f.decide(); plan.Acts() {
		t.Errorf("a dying set still acts: %+v", plan)
	}
}

func TestC27SelectorsAdoptOrphansOnlyAndUIDsOwn(t *testing.T) {
	set, other := build.DaemonSet("logd"), build.DaemonSet("other", func(other *appsv1.DaemonSet) {
		other.Spec.Selector.MatchLabels = map[string]string{"app": "logd"}
		other.Spec.Template.Labels = map[string]string{"app": "logd"}
	})
	orphan := build.DaemonPod(set, "a", "h", func(pod *v1.Pod) { pod.OwnerReferences = nil })
	stranger := build.DaemonPod(set, "a", "h", build.Named("stranger"), func(pod *v1.Pod) {
		pod.OwnerReferences, pod.Labels = nil, map[string]string{"app": "web"}
	})
	f := newFleet(set, "a")
	theirs := build.DaemonPod(other, "a", "h")
	f.pods[theirs.Name] = theirs
	f.orphans = []*v1.Pod{orphan, stranger, theirs}
	plan := f.decide()
	if len(plan.Adopt) != 1 || plan.Adopt[0] != orphan || len(plan.Create)+len(plan.Delete) != 0 {
		t.Fatalf("adopts %d and creates %d before who is there is settled; should adopt the orphan alone", len(plan.Adopt), len(plan.Create))
	}
	f.orphans = nil
	if plan := f.decide(); len(plan.Create) != 1 || plan.Status.CurrentNumberScheduled != 0 {
		t.Errorf("the other set's Pod is taken for this one's: %+v", plan.Status)
	}
	mine := build.DaemonPod(set, "a", "h", func(pod *v1.Pod) { pod.Labels = map[string]string{"app": "debug"} })
	f.pods[mine.Name] = mine
	if plan := f.decide(); len(plan.Release) != 1 || plan.Release[0] != mine {
		t.Errorf("a Pod whose labels were taken off is not released: %+v", plan.Release)
	}
}
