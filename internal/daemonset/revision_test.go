package daemonset_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/daemonset"
	"muster.dev/muster/internal/testkit/build"
)

// numbers are the revisions by number, with their images.
func (f *fleet) numbers() map[int64]string {
	got := map[int64]string{}
	for _, revision := range f.revisions {
		var data struct {
			Spec struct{ Template v1.PodTemplateSpec }
		}
		if err := json.Unmarshal(revision.Data.Raw, &data); err != nil {
			panic(err)
		}
		got[revision.Revision] = data.Spec.Template.Spec.Containers[0].Image
	}
	return got
}

func TestEveryTemplateIsARevisionAndGoingBackRaisesIt(t *testing.T) {
	f := running(t, build.DaemonSet("logd"), "a")
	for _, image := range []string{"daemon:v2", "daemon:v3", "daemon:v1"} {
		f.template(build.Image(image))
		f.settle(true)
	}
	if got, want := fmt.Sprint(f.numbers()), "map[2:daemon:v2 3:daemon:v3 4:daemon:v1]"; got != want {
		t.Errorf("revisions are %s, should be %s", got, want)
	}
	expectShow(t, f, "a=v1")
}

func TestARevisionPutsItsTemplateBack(t *testing.T) {
	f := running(t, build.DaemonSet("logd", build.Tolerating("gpu=true:NoSchedule")), "a")
	var first *appsv1.ControllerRevision
	for _, revision := range f.revisions {
		first = revision
	}
	wanted := f.set.Spec.Template
	f.template(func(set *appsv1.DaemonSet) {
		build.Image("daemon:v2")(set)
		build.Tolerating("spot=true:NoSchedule")(set)
		set.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
	})
	now, err := json.Marshal(f.set)
	if err != nil {
		t.Fatal(err)
	}
	back, err := strategicpatch.StrategicMergePatch(now, first.Data.Raw, appsv1.DaemonSet{})
	if err != nil {
		t.Fatalf("the revision is no patch: %v", err)
	}
	var undone appsv1.DaemonSet
	if err := json.Unmarshal(back, &undone); err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(undone.Spec.Template)
	want, _ := json.Marshal(wanted)
	if string(got) != string(want) {
		t.Errorf("put back is\n%s, should be\n%s", got, want)
	}
}

func TestC23ARevisionKeepsTheCauseOfItsChange(t *testing.T) {
	f := running(t, build.DaemonSet("logd", func(set *appsv1.DaemonSet) {
		set.Annotations["kubernetes.io/change-cause"] = "first"
		set.Annotations[v1.LastAppliedConfigAnnotation] = "{}"
	}), "a")
	f.template(func(set *appsv1.DaemonSet) {
		build.Image("daemon:v2")(set)
		set.Annotations["kubernetes.io/change-cause"] = "second"
	})
	f.settle(true)
	causes := map[int64]string{}
	for _, revision := range f.revisions {
		causes[revision.Revision] = revision.Annotations["kubernetes.io/change-cause"]
		if _, has := revision.Annotations[v1.LastAppliedConfigAnnotation]; has {
			t.Error("a revision carries the whole applied manifest once more")
		}
	}
	if causes[1] != "first" || causes[2] != "second" {
		t.Errorf("causes are %v, should be first and second", causes)
	}
}

func TestC21ATakenNameIsCountedOnceAndAvoided(t *testing.T) {
	f := newFleet(build.DaemonSet("logd"), "a")
	name := f.decide().History.Create.Name
	foreign := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "foreign"}}
	foreign.Data.Raw = []byte(`{"other":"data"}`)
	f.revisions[name] = foreign
	plan := f.decide()
	if !plan.History.Collided || len(plan.Create) != 0 || plan.Status.CollisionCount == nil || *plan.Status.CollisionCount != 1 {
		t.Fatalf("a taken name gives %+v, should only be counted", plan)
	}
	stale := f.decide() // the same old set again: the same count
	f.apply(plan)
	if *stale.Status.CollisionCount != 1 {
		t.Errorf("a stale look counts to %d", *stale.Status.CollisionCount)
	}
	f.settle(true)
	if len(f.revisions) != 2 || *f.set.Status.CollisionCount != 1 {
		t.Errorf("%d revisions and count %d, should be the foreign one, one of ours, and 1", len(f.revisions), *f.set.Status.CollisionCount)
	}
	expectShow(t, f, "a=v1")
}

func TestHistoryIsLimitedButKeepsWhatPodsCarry(t *testing.T) {
	two := int32(2)
	f := running(t, build.DaemonSet("logd", onDelete, func(set *appsv1.DaemonSet) { set.Spec.RevisionHistoryLimit = &two }), "a")
	for i := 2; i <= 6; i++ {
		f.template(build.Image(fmt.Sprintf("daemon:v%d", i)))
		f.settle(true)
	}
	// The Pod still runs v1, since nobody has deleted it.
	if got, want := fmt.Sprint(f.numbers()), "map[1:daemon:v1 5:daemon:v5 6:daemon:v6]"; got != want {
		t.Errorf("kept are %s, should be %s", got, want)
	}
}

func TestOrphanedRevisionsAreAdoptedAndEqualOnesMadeOne(t *testing.T) {
	f := running(t, build.DaemonSet("logd"), "a")
	var current *appsv1.ControllerRevision
	for _, revision := range f.revisions {
		current = revision
	}
	orphan := current.DeepCopy()
	orphan.Name, orphan.UID, orphan.OwnerReferences = "logd-orphan", "orphan", nil
	orphan.Labels[appsv1.ControllerRevisionHashLabelKey] = "orphan"
	orphan.Revision = 9
	f.revisions[orphan.Name] = orphan
	plan := f.decide()
	if len(plan.History.Adopt) != 1 || len(plan.Delete) != 0 {
		t.Fatalf("adopts %d revisions and deletes %q; should adopt one and take its Pods for current", len(plan.History.Adopt), deletions(plan))
	}
	f.settle(true)
	if f.revisions["logd-orphan"].OwnerReferences == nil {
		t.Error("the orphan has no owner yet")
	}
	f.pods = map[string]*v1.Pod{} // nobody carries the old hash any more
	f.settle(true)
	if len(f.revisions) != 1 {
		t.Errorf("%d equal revisions, should be one", len(f.revisions))
	}
}

func TestC38TheManifestAimsAtItsNode(t *testing.T) {
	preferred := []v1.PreferredSchedulingTerm{{Weight: 1, Preference: label("disk", "ssd")}}
	set := build.DaemonSet("logd", func(set *appsv1.DaemonSet) {
		set.Spec.Template.Annotations = map[string]string{"note": "kept"}
		set.Spec.Template.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{label("zone", "a"), label("zone", "b")},
			},
			PreferredDuringSchedulingIgnoredDuringExecution: preferred,
		}}
	})
	f := newFleet(set, "a")
	build.Labelled("zone=b")(f.nodes["a"])
	pod := f.decide().Create[0].Pod
	affinity := pod.Spec.Affinity.NodeAffinity
	terms := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 0 || coverage.TargetOf(pod) != "a" {
		t.Errorf("required are %v, should be the node's name alone", terms)
	}
	if len(affinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
		t.Error("what the template prefers is lost")
	}
	if got := len(f.set.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms); got != 2 {
		t.Error("the set's own template was changed")
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.UID != set.UID || owner.Kind != "DaemonSet" || owner.APIVersion != "apps/v1" {
		t.Errorf("owner is %v", owner)
	}
	if pod.Labels["app"] != "logd" || pod.Labels["pod-template-generation"] != "1" || coverage.RevisionOf(pod) == "" || pod.Annotations["note"] != "kept" {
		t.Errorf("labels %v, annotations %v", pod.Labels, pod.Annotations)
	}
	if len(pod.Spec.Tolerations) != 6 {
		t.Errorf("%d tolerations, should be the six automatic ones", len(pod.Spec.Tolerations))
	}
}

func label(key, value string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value}}}}
}

func TestPodNamesAreForeseeableAndTellApart(t *testing.T) {
	set := build.DaemonSet("logd")
	name := daemonset.PodName(set, "node-a", "")
	if name != daemonset.PodName(set, "node-a", "") || !strings.HasPrefix(name, "logd-") {
		t.Errorf("the name %q does not follow from what it is for", name)
	}
	again := build.DaemonSet("logd", func(set *appsv1.DaemonSet) { set.UID = "made-again" })
	for _, other := range []string{daemonset.PodName(set, "node-b", ""), daemonset.PodName(set, "node-a", "r1"), daemonset.PodName(again, "node-a", "")} {
		if other == name {
			t.Errorf("two Pods would be named %q", name)
		}
	}
	seen := map[string]bool{}
	for i := range 10_000 {
		seen[daemonset.PodName(set, build.Node(fmt.Sprint(i)).UID, "")] = true
	}
	if len(seen) != 10_000 {
		t.Errorf("%d names for 10000 nodes", len(seen))
	}
	long := build.DaemonSet(strings.Repeat("a", 51) + "." + strings.Repeat("b", 60))
	if name := daemonset.PodName(long, "node-a", ""); len(name) > 63 || strings.Contains(name, ".-") {
		t.Errorf("%q is no host name", name)
	}
}
