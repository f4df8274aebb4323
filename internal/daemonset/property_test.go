package daemonset_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/daemonset"
	"muster.dev/muster/internal/reason"
	"muster.dev/muster/internal/testkit/build"
)

// history is one random life of a fleet, with what its checks must remember.
type history struct {
	*rapid.T
	*fleet
	surges   bool
	replaced map[types.UID]daemonset.Failure // failed Pods replaced, by node
	joined   int
}

func TestRandomHistoriesKeepTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{T: t, surges: rapid.Bool().Draw(t, "surges"), replaced: map[types.UID]daemonset.Failure{}}
		set := build.DaemonSet("logd")
		set.Spec.MinReadySeconds = rapid.SampledFrom([]int32{0, 5}).Draw(t, "minReadySeconds")
		h.fleet = newFleet(set, "a", "b", "c", "d")
		h.budget(t)
		t.Repeat(map[string]func(*rapid.T){
			"decide":    h.step,
			"budget":    h.budget,
			"template":  h.edit,
			"tick":      func(t *rapid.T) { h.now = h.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "s")) * time.Second) },
			"serve":     h.toOne(func(pod *v1.Pod) { build.SetReady(pod, h.now) }),
			"break":     h.toOne(func(pod *v1.Pod) { setUnready(pod, h.now) }),
			"fail":      h.toOne(build.Failed("Evicted")),
			"stop":      h.stopOne,
			"join":      h.join,
			"leave":     h.leave,
			"taint":     h.taint,
			"user":      h.deleteOne,
			"serve all": func(*rapid.T) { h.serve() },
			"blind":     h.blind,
		})
		h.rest()
	})
}

// setUnready is how an agent reports a Pod that stopped serving.
func setUnready(pod *v1.Pod, now time.Time) {
	build.Unready(pod)
	pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now)
}

func (h *history) budget(t *rapid.T) {
	n := rapid.SampledFrom([]string{"1", "2", "50%"}).Draw(t, "budget")
	change := build.Budget(n, "0")
	if h.surges {
		change = build.Budget("0", n)
	}
	h.template(change)
}

func (h *history) edit(t *rapid.T) {
	h.template(build.Image("daemon:v" + rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "image")))
}

// one draws a Pod that meets the condition; nil where none does.
func (h *history) one(t *rapid.T, such func(*v1.Pod) bool) *v1.Pod {
	var all []*v1.Pod
	for _, pod := range h.sorted() {
		if such(pod) {
			all = append(all, pod)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(t, "pod")
}

func (h *history) toOne(change func(*v1.Pod)) func(*rapid.T) {
	return func(t *rapid.T) {
		if pod := h.one(t, coverage.Live); pod != nil {
			h.change(pod.Name, change)
		}
	}
}

func (h *history) stopOne(t *rapid.T) {
	if pod := h.one(t, func(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil }); pod != nil {
		delete(h.pods, pod.Name)
	}
}

func (h *history) deleteOne(t *rapid.T) {
	if pod := h.one(t, coverage.Live); pod != nil {
		h.delete(pod.Name, pod.UID)
	}
}

func (h *history) join(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "node")
	if h.nodes[name] == nil {
		h.joined++
		h.nodes[name] = build.Node(name, func(node *v1.Node) { node.UID += types.UID(fmt.Sprint(h.joined)) })
	}
}

// leave takes a node away, and mostly the Pods on it with it.
func (h *history) leave(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "node")
	delete(h.nodes, name)
	if rapid.IntRange(0, 3).Draw(t, "collected") > 0 {
		maps.DeleteFunc(h.pods, func(_ string, pod *v1.Pod) bool { return coverage.TargetOf(pod) == name })
	}
}

func (h *history) taint(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "node")
	if h.nodes[name] == nil {
		return
	}
	node := h.nodes[name].DeepCopy()
	node.Spec.Taints = nil
	if effect := rapid.SampledFrom([]string{"", "NoSchedule", "NoExecute"}).Draw(t, "effect"); effect != "" {
		build.Tainted("x=y:" + effect)(node)
	}
	h.nodes[name] = node
}

// step decides, checks the plan against the rules, and applies it, now and then
// twice, as a crash between the write and its memory would.
func (h *history) step(t *rapid.T) {
	before := h.print()
	plan := h.decide()
	if after := h.print(); before != after {
		t.Fatalf("Decide changed what it was given:\n%s\n%s", before, after)
	}
	h.checkCreates(plan)
	if h.surges {
		h.checkSurge(plan)
	} else {
		h.checkBudget(plan)
	}
	h.checkBackOff(plan)
	h.checkStatus(plan)
	h.apply(plan)
	if rapid.Bool().Draw(t, "twice") {
		h.apply(plan)
	}
	h.checkCrowds()
}

// blind decides on a cache that does not show some Pods, and creates what it finds
// missing: the names must refuse what is there. (A Pod of a former node of this name
// is long known, since that node is gone. With surge a name tells revisions
// apart, and what was written is remembered instead.)
func (h *history) blind(t *rapid.T) {
	if h.surges {
		return
	}
	unseen := h.one(t, func(pod *v1.Pod) bool {
		node := h.nodes[coverage.TargetOf(pod)]
		return node != nil && pod.Name == daemonset.PodName(h.set, node.UID, "")
	})
	if unseen == nil {
		return
	}
	all := maps.Clone(h.pods)
	delete(h.pods, unseen.Name)
	plan := h.decide()
	h.pods = all
	for _, creation := range plan.Create {
		h.create(creation.Pod)
	}
	h.checkCrowds()
}

func (h *history) print() string {
	raw, err := json.Marshal(map[string]any{"set": h.set, "nodes": h.nodes, "pods": h.pods, "revisions": h.revisions, "failures": h.failures})
	if err != nil {
		h.Fatal(err)
	}
	return string(raw)
}

// here are the Pods on a node, and of them the live ones.
func (h *history) here(node string) (all, live []*v1.Pod) {
	for _, pod := range h.sorted() {
		if coverage.TargetOf(pod) == node {
			all = append(all, pod)
			if coverage.Live(pod) {
				live = append(live, pod)
			}
		}
	}
	return all, live
}

func (h *history) wanted() []string {
	var names []string
	for name, node := range h.nodes {
		if len(node.Spec.Taints) == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (h *history) available(pod *v1.Pod) bool {
	at, ready := coverage.AvailableAt(pod, time.Duration(h.set.Spec.MinReadySeconds)*time.Second)
	return ready && !h.now.Before(at)
}

// limit is the set's budget worked out anew.
func (h *history) limit() int {
	rolling := h.set.Spec.UpdateStrategy.RollingUpdate
	value := rolling.MaxUnavailable
	if h.surges {
		value = rolling.MaxSurge
	}
	if value.StrVal == "50%" {
		return max(1, (len(h.wanted())+1)/2)
	}
	return value.IntValue()
}

func (h *history) checkCreates(plan daemonset.Plan) {
	wanted := h.wanted()
	seen := map[string]bool{}
	for _, creation := range plan.Create {
		if !slices.Contains(wanted, creation.Node) || seen[creation.Node] {
			h.Fatalf("a Pod is created on %s, which does not want one (more)", creation.Node)
		}
		seen[creation.Node] = true
		if all, _ := h.here(creation.Node); len(all) > 0 && !h.surges {
			h.Fatalf("a Pod is created on %s beside %s", creation.Node, all[0].Name)
		}
	}
	for _, name := range wanted {
		if all, _ := h.here(name); len(all) == 0 && !seen[name] {
			h.Fatalf("node %s stays uncovered", name)
		}
	}
}

// checkBudget works out what the plan would leave: nodes without an available Pod,
// and of them those under renewal, that is without a live outdated Pod.
func (h *history) checkBudget(plan daemonset.Plan) {
	deleted := map[types.UID]bool{}
	tookReady, tookBroken := false, false
	for _, d := range plan.Delete {
		deleted[d.Pod.UID] = true
		switch d.Reason.Code {
		case reason.OutdatedPod:
			tookReady = true
		case reason.OutdatedBroken:
			tookBroken = true
			if coverage.Ready(d.Pod) || !d.Unready {
				h.Fatalf("Ready Pod %s is deleted as a broken one", d.Pod.Name)
			}
		}
	}
	down, moving := 0, 0
	for name, node := range h.nodes {
		all, live := h.here(name)
		if taints := node.Spec.Taints; len(taints) > 0 && (len(all) == 0 || taints[0].Effect == v1.TaintEffectNoExecute) {
			continue // it neither wants a Pod nor keeps one
		}
		serving, old := false, false
		for _, pod := range live {
			if !deleted[pod.UID] {
				serving = serving || h.available(pod)
				old = old || !h.updated(plan, pod)
			}
		}
		if !serving {
			down++
			if !old {
				moving++
			}
		}
	}
	if tookReady && down > h.limit() {
		h.Fatalf("Ready Pods are deleted although %d nodes are then without one; the budget is %d", down, h.limit())
	}
	if tookBroken && moving > h.limit() {
		h.Fatalf("broken Pods are deleted although %d nodes are then under renewal; the budget is %d", moving, h.limit())
	}
}

// updated says by its image, not its hash, that a Pod is of the present template.
func (h *history) updated(_ daemonset.Plan, pod *v1.Pod) bool {
	return pod.Spec.Containers[0].Image == h.set.Spec.Template.Spec.Containers[0].Image
}

func (h *history) checkSurge(plan daemonset.Plan) {
	for _, d := range plan.Delete {
		_, live := h.here(coverage.TargetOf(d.Pod))
		successor := slices.ContainsFunc(live, func(pod *v1.Pod) bool { return h.updated(plan, pod) && h.available(pod) })
		if d.Reason.Code == reason.OutdatedPod && !successor {
			h.Fatalf("Ready Pod %s is deleted before its successor is available", d.Pod.Name)
		}
	}
	crowded, added := 0, 0
	for _, name := range h.wanted() {
		if all, _ := h.here(name); len(all) > 1 {
			crowded++
		}
	}
	for _, creation := range plan.Create {
		if all, _ := h.here(creation.Node); len(all) > 0 {
			added++
		}
	}
	if added > 0 && crowded+added > h.limit() {
		h.Fatalf("%d nodes get a second Pod where %d have one; the budget is %d", added, crowded, h.limit())
	}
}

// checkBackOff keeps its own account of when failed Pods were replaced.
func (h *history) checkBackOff(plan daemonset.Plan) {
	for _, d := range plan.Delete {
		if d.Reason.Code != reason.FailedPod {
			continue
		}
		node := h.nodes[coverage.TargetOf(d.Pod)]
		last := h.replaced[node.UID]
		if last.Revision != coverage.RevisionOf(d.Pod) {
			last = daemonset.Failure{Revision: coverage.RevisionOf(d.Pod)}
		}
		if last.Count > 0 && h.now.Sub(last.Last) < min(time.Second<<(last.Count-1), 15*time.Minute) {
			h.Fatalf("failed Pod %s is replaced %v after the last of %d", d.Pod.Name, h.now.Sub(last.Last), last.Count)
		}
		h.replaced[node.UID] = daemonset.Failure{Revision: last.Revision, Count: last.Count + 1, Last: h.now}
	}
}

func (h *history) checkStatus(plan daemonset.Plan) {
	got := plan.Status
	if got.NumberUnavailable+got.NumberAvailable != got.DesiredNumberScheduled || int(got.DesiredNumberScheduled) != len(h.wanted()) {
		h.Fatalf("status %+v does not add up for %d wanted nodes", got, len(h.wanted()))
	}
	if got.NumberAvailable > got.NumberReady || got.NumberReady > got.CurrentNumberScheduled || got.UpdatedNumberScheduled > got.CurrentNumberScheduled {
		h.Fatalf("status %+v counts more of a part than of the whole", got)
	}
}

func (h *history) checkCrowds() {
	most := 1
	if h.surges {
		most = 2
	}
	for name := range h.nodes {
		if all, _ := h.here(name); len(all) > most {
			h.Fatalf("node %s has %d Pods: %s", name, len(all), h.show())
		}
	}
}

// rest makes the world kind, and the daemon must come to rest with one Ready Pod of
// the present template on every wanted node and nothing left to do.
func (h *history) rest() {
	maps.DeleteFunc(h.pods, func(_ string, pod *v1.Pod) bool { return h.nodes[coverage.TargetOf(pod)] == nil })
	for range 200 {
		h.now = h.now.Add(time.Hour) // past every back-off and minReadySeconds
		h.apply(h.decide())
		h.gone()
		h.serve()
	}
	plan := h.decide()
	if plan.Acts() || !plan.Next.IsZero() && plan.Next.Sub(h.now) > time.Minute {
		h.Fatalf("no rest: %d to create, %d to delete, %v", len(plan.Create), len(plan.Delete), plan.Reasons)
	}
	for _, name := range h.wanted() {
		all, live := h.here(name)
		if len(all) != 1 || len(live) != 1 || !h.updated(plan, live[0]) || !coverage.Ready(live[0]) {
			h.Fatalf("at rest node %s is not covered by one Ready Pod: %s", name, h.show())
		}
	}
}
