package daemonset_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/daemonset"
	"muster.dev/muster/internal/reason"
	"muster.dev/muster/internal/testkit/build"
)

// fleet is a small world in which plans come true: it does what the API server and
// the nodes' agents would do, as far as a daemon notices.
type fleet struct {
	set       *appsv1.DaemonSet
	nodes     map[string]*v1.Node
	pods      map[string]*v1.Pod // by name, which is what the API keeps unique
	revisions map[string]*appsv1.ControllerRevision
	orphans   []*v1.Pod
	failures  daemonset.Failures
	fits      daemonset.Fits
	now       time.Time
	serial    int
	// refused counts creates whose name was taken.
	refused int
}

func newFleet(set *appsv1.DaemonSet, nodes ...string) *fleet {
	f := &fleet{
		set: set, now: build.Start,
		nodes: map[string]*v1.Node{}, pods: map[string]*v1.Pod{}, revisions: map[string]*appsv1.ControllerRevision{},
		fits: func(*v1.Pod, *v1.Node) []reason.Reason { return nil },
	}
	for _, name := range nodes {
		f.nodes[name] = build.Node(name)
	}
	return f
}

// column is the set's column as a fresh matrix shows it.
func (f *fleet) column() coverage.Column {
	matrix := coverage.New()
	matrix.SetDaemon(f.set)
	for _, node := range f.nodes {
		matrix.SetNode(node)
	}
	for _, pod := range f.pods {
		matrix.SetPod(pod)
	}
	column, _ := matrix.Column(f.set.UID)
	return column
}

func (f *fleet) decide() daemonset.Plan {
	return daemonset.Decide(daemonset.Input{
		Column: f.column(), Orphans: f.orphans, Failures: f.failures, Fits: f.fits,
		Revisions: slices.Collect(maps.Values(f.revisions)),
	}, f.now)
}

// apply makes a plan true, as far as it still can be.
func (f *fleet) apply(plan daemonset.Plan) {
	f.failures = plan.Failures
	h := plan.History
	for _, revision := range h.Adopt {
		adopted := revision.DeepCopy()
		adopted.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(f.set, daemonset.ControllerKind)}
		f.revisions[revision.Name] = adopted
	}
	for _, revision := range []*appsv1.ControllerRevision{h.Create, h.Raise} {
		if revision != nil {
			f.revisions[revision.Name] = revision
		}
	}
	for _, revision := range h.Delete {
		delete(f.revisions, revision.Name)
	}
	for _, deletion := range plan.Delete {
		f.delete(deletion.Pod.Name, deletion.Pod.UID)
	}
	for _, creation := range plan.Create {
		f.create(creation.Pod)
	}
	set := f.set.DeepCopy()
	set.Status = plan.Status
	f.set = set
}

func (f *fleet) create(pod *v1.Pod) {
	if f.pods[pod.Name] != nil {
		f.refused++
		return
	}
	f.serial++
	pod.UID = types.UID(fmt.Sprintf("pod-%d", f.serial))
	pod.CreationTimestamp = metav1.NewTime(f.now.Truncate(time.Second))
	f.pods[pod.Name] = pod
}

func (f *fleet) delete(name string, uid types.UID) {
	pod := f.pods[name]
	if pod == nil || pod.UID != uid || pod.DeletionTimestamp != nil {
		return
	}
	if pod.Spec.NodeName == "" {
		delete(f.pods, name)
		return
	}
	stopping := pod.DeepCopy()
	at := metav1.NewTime(f.now)
	stopping.DeletionTimestamp = &at
	f.pods[name] = stopping
}

// change replaces a Pod by a changed copy.
func (f *fleet) change(name string, by func(*v1.Pod)) {
	pod := f.pods[name].DeepCopy()
	by(pod)
	f.pods[name] = pod
}

// gone lets the agents end every Pod that is being deleted.
func (f *fleet) gone() {
	maps.DeleteFunc(f.pods, func(_ string, pod *v1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// serve makes every live Pod Ready since now.
func (f *fleet) serve() {
	for name, pod := range f.pods {
		if coverage.Live(pod) && !coverage.Ready(pod) {
			f.change(name, func(pod *v1.Pod) { build.SetReady(pod, f.now) })
		}
	}
}

// settle decides and applies, with agents that do their part, until a plan has
// nothing left to do. It gives up, saying so, after many steps.
func (f *fleet) settle(serve bool) bool {
	for range 200 {
		plan := f.decide()
		if !plan.Acts() && !f.stopping() {
			f.apply(plan)
			if again := f.decide(); !again.Acts() {
				return true
			}
			continue
		}
		f.apply(plan)
		f.gone()
		if serve {
			f.serve()
		}
	}
	return false
}

func (f *fleet) stopping() bool {
	for _, pod := range f.pods {
		if pod.DeletionTimestamp != nil {
			return true
		}
	}
	return false
}

// template gives the set another template, as a user would.
func (f *fleet) template(change func(*appsv1.DaemonSet)) {
	set := f.set.DeepCopy()
	change(set)
	set.Generation++
	f.set = set
}

// sorted are the Pods by node and name.
func (f *fleet) sorted() []*v1.Pod {
	return slices.SortedFunc(maps.Values(f.pods), func(a, b *v1.Pod) int {
		return cmp.Or(strings.Compare(coverage.TargetOf(a), coverage.TargetOf(b)), strings.Compare(a.Name, b.Name))
	})
}

// show is one word per node: its Pods' images, with ! for one that is not Ready
// and ~ for one that is stopping.
func (f *fleet) show() string {
	byNode := map[string][]string{}
	for name := range f.nodes {
		byNode[name] = nil
	}
	for _, pod := range f.sorted() {
		word := strings.TrimPrefix(pod.Spec.Containers[0].Image, "daemon:")
		if !coverage.Ready(pod) {
			word += "!"
		}
		if pod.DeletionTimestamp != nil {
			word += "~"
		}
		byNode[coverage.TargetOf(pod)] = append(byNode[coverage.TargetOf(pod)], word)
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(byNode)) {
		slices.Sort(byNode[name])
		words = append(words, name+"="+strings.Join(byNode[name], "+"))
	}
	return strings.Join(words, " ")
}

// on is the first Pod on a node.
func (f *fleet) on(node string) *v1.Pod {
	for _, pod := range f.sorted() {
		if coverage.TargetOf(pod) == node {
			return pod
		}
	}
	return nil
}
