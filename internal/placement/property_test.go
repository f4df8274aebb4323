package placement

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"muster.dev/muster/internal/reason"
)

var (
	someNodes = []string{"a", "b", "c", "d", "e"}
	someApps  = []string{"db", "web"}
	someKeys  = []string{v1.LabelHostname, zone, "rack"}
)

func pick[T any](t *rapid.T, what string, from ...T) T { return rapid.SampledFrom(from).Draw(t, what) }

func drawNode(t *rapid.T, name string) *v1.Node {
	n := node(name, has(v1.ResourceCPU, pick(t, "cpu", "1", "2", "4")), has(v1.ResourcePods, pick(t, "pods", "2", "5")))
	for _, key := range []string{zone, "rack"} {
		if value := pick(t, key, "", "1", "2", "3"); value != "" {
			n.Labels[key] = value
		}
	}
	if pick(t, "tainted", true, false, false, false) {
		n.Spec.Taints = []v1.Taint{{Key: "k", Value: pick(t, "taint", "v", "w"),
			Effect: pick(t, "effect", v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule)}}
	}
	n.Spec.Unschedulable = pick(t, "cordoned", true, false, false, false, false)
	return n
}

func drawTerms(t *rapid.T, what string) []v1.PodAffinityTerm {
	var terms []v1.PodAffinityTerm
	for range pick(t, what, 0, 0, 0, 1, 2) {
		term := app(pick(t, what+" app", someApps...), pick(t, what+" key", someKeys...))
		switch pick(t, what+" namespaces", 0, 0, 0, 1, 2) {
		case 1:
			term.Namespaces = []string{"other"}
		case 2:
			term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}
		}
		terms = append(terms, term)
	}
	return terms
}

func drawPod(t *rapid.T, name string) *v1.Pod {
	p := pod(name, tagged("app", pick(t, "app", someApps...)), near(drawTerms(t, "near")...), awayFrom(drawTerms(t, "away")...))
	p.Namespace = pick(t, "namespace", "default", "default", "other")
	p.UID = types.UID(fmt.Sprintf("%s-%d", name, rapid.IntRange(0, 3).Draw(t, "uid")))
	if cpu := pick(t, "asks", "", "500m", "1", "2"); cpu != "" {
		asks(v1.ResourceCPU, cpu)(p)
	}
	if step := pick(t, "step", "", "", "1500m"); step != "" {
		inits(container("step", step))(p)
	}
	if pick(t, "has port", true, false, false) {
		port(pick(t, "protocol", v1.ProtocolTCP, v1.ProtocolUDP), pick(t, "ip", "", "10.0.0.1", "10.0.0.2"), pick[int32](t, "port", 80, 81))(p)
	}
	if pick(t, "tolerates", true, false) {
		tolerates(pick(t, "key", "", "k"), v1.TolerationOpExists, "", pick(t, "tolerated", "", v1.TaintEffectNoSchedule))(p)
	}
	if pick(t, "selects", true, false, false, false) {
		selects("rack", pick(t, "rack", "1", "2"))(p)
	}
	for range pick(t, "spreads", 0, 0, 1, 2) {
		spread(pick(t, "spread app", someApps...), pick(t, "spread key", someKeys...), pick[int32](t, "skew", 1, 2))(p)
	}
	return p
}

// story changes a ledger and a plain cluster side by side.
type story struct {
	ledger *Ledger
	plain  *plain
}

func newStory() *story {
	s := &story{ledger: NewLedger(), plain: &plain{nodes: map[string]*v1.Node{}, pods: map[string]*v1.Pod{},
		namespaces: map[string]map[string]string{"other": {"team": "x"}}}}
	s.ledger.SetNamespace(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"team": "x"}}})
	return s
}

// step is one piece of news, or one decision.
func (s *story) step(t *rapid.T) {
	switch pick(t, "step", "node", "node", "node gone", "pod", "pod", "pod", "pod", "pod gone", "assume", "forget") {
	case "node":
		n := drawNode(t, pick(t, "node", someNodes...))
		s.plain.nodes[n.Name] = n
		s.ledger.SetNode(n)
	case "node gone":
		name := pick(t, "node", someNodes...)
		delete(s.plain.nodes, name)
		s.ledger.RemoveNode(name)
	case "pod":
		p := drawPod(t, fmt.Sprintf("p%d", rapid.IntRange(0, 9).Draw(t, "name")))
		p.Spec.NodeName = pick(t, "on", someNodes...)
		p.Status.Phase = pick(t, "phase", v1.PodRunning, v1.PodRunning, v1.PodPending, v1.PodSucceeded, v1.PodFailed)
		if pick(t, "leaving", true, false, false) {
			terminating(p)
		}
		delete(s.plain.pods, keyOf(p).String())
		if !ended(p) {
			s.plain.pods[keyOf(p).String()] = p
		}
		s.ledger.SetPod(p)
	case "pod gone":
		if p := s.some(t); p != nil {
			delete(s.plain.pods, keyOf(p).String())
			s.ledger.RemovePod(p)
		}
	case "assume":
		p, on := drawPod(t, fmt.Sprintf("p%d", rapid.IntRange(0, 9).Draw(t, "name"))), pick(t, "on", someNodes...)
		s.ledger.Assume(p, on, start.Add(time.Minute))
		bound := p.DeepCopy()
		bound.Spec.NodeName = on
		s.plain.pods[keyOf(p).String()] = bound
	case "forget":
		if p := s.some(t); p != nil {
			if _, freed := s.ledger.Forget(keyOf(p)); freed {
				delete(s.plain.pods, keyOf(p).String())
			}
		}
	}
}

func (s *story) some(t *rapid.T) *v1.Pod {
	if len(s.plain.pods) == 0 {
		return nil
	}
	return s.plain.pods[pick(t, "which", slices.Sorted(maps.Keys(s.plain.pods))...)]
}

func TestLedgerAgreesWithItsSlowTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStory()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			s.step(t)
		}
		newcomer := drawPod(t, "newcomer")
		if diff := s.plain.difference(s.ledger, newcomer); diff != "" {
			t.Fatal(diff)
		}
		fits := func(name string) bool { return len(s.plain.refuses(newcomer, s.plain.nodes[name])) == 0 }
		decision := Decide(newcomer, s.ledger)
		if decision.Placed() && !fits(decision.Node) {
			t.Fatalf("placed on %s, where it does not fit", decision.Node)
		}
		if !decision.Placed() && slices.ContainsFunc(slices.Collect(maps.Keys(s.plain.nodes)), fits) {
			t.Fatalf("placed nowhere, although it fits somewhere: %s", decision.Message())
		}
	})
}

// TestTheTwinWouldNotice shows that the comparison above can fail: a twin that
// is blind for any one rule is caught.
func TestTheTwinWouldNotice(t *testing.T) {
	for _, rule := range []reason.Code{
		reason.Unschedulable, reason.UntoleratedTaint, reason.NodeSelector, reason.HostPortTaken, reason.InsufficientResource, reason.TooManyPods,
		reason.PodAffinity, reason.PodAntiAffinity, reason.ExistingAntiAffinity, reason.TopologySpread, reason.TopologySpreadLabel,
	} {
		caught := rapid.Custom(func(t *rapid.T) bool {
			s := newStory()
			s.plain.blind = rule
			for range 30 {
				s.step(t)
			}
			return s.plain.difference(s.ledger, drawPod(t, "newcomer")) != ""
		})
		found := false
		for seed := 0; seed < 200 && !found; seed++ {
			found = caught.Example(seed)
		}
		if !found {
			t.Errorf("a twin blind for %s is not caught in 200 stories", rule)
		}
	}
}

func TestNoNodeIsEverFilledBeyondItsRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ledger := NewLedger()
		for _, name := range someNodes {
			ledger.SetNode(drawNode(t, name))
		}
		placed := map[string][]*v1.Pod{}
		for i := range rapid.IntRange(1, 25).Draw(t, "pods") {
			p := drawPod(t, fmt.Sprintf("p%d", i))
			if decision := Decide(p, ledger); decision.Placed() {
				ledger.Assume(p, decision.Node, start)
				placed[decision.Node] = append(placed[decision.Node], p)
			}
		}
		for name, pods := range placed {
			n := ledger.rooms[name].node
			asked := resource.Quantity{}
			for _, p := range pods {
				asked.Add(Requests(p)[v1.ResourceCPU])
			}
			if asked.Cmp(*n.Status.Allocatable.Cpu()) > 0 || int64(len(pods)) > n.Status.Allocatable.Pods().Value() {
				t.Fatalf("%s has %d Pods that ask for %s CPUs", name, len(pods), asked.String())
			}
			for i, p := range pods {
				for _, q := range pods[:i] {
					if slices.ContainsFunc(hostPorts(p), func(a hostPort) bool { return slices.ContainsFunc(hostPorts(q), a.clashes) }) {
						t.Fatalf("%s and %s have one host port on %s", p.Name, q.Name, name)
					}
				}
			}
		}
	})
}

func TestALedgerThatIsEmptiedHoldsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStory()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			s.step(t)
			Fits(drawPod(t, "newcomer"), s.ledger, "a") // files topologies
		}
		for _, p := range s.plain.pods {
			s.ledger.RemovePod(p)
		}
		for name := range s.plain.nodes {
			if room := s.ledger.rooms[name]; len(room.requested) > 0 || len(room.ports) > 0 || len(room.pods) > 0 {
				t.Fatalf("%s still holds %v, %v, %v", name, room.requested, room.ports, room.pods)
			}
			s.ledger.RemoveNode(name)
		}
		if l := s.ledger; len(l.rooms)+l.nodes+len(l.where)+len(l.assumed)+len(l.repelling) > 0 {
			t.Fatalf("left over: %v, %v, %v, %v", l.rooms, l.where, l.assumed, l.repelling)
		}
		for key, values := range s.ledger.domains {
			if len(values) > 0 {
				t.Fatalf("left over under %s: %v", key, values)
			}
		}
	})
}

func TestDecidingChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStory()
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			s.step(t)
		}
		newcomer := drawPod(t, "newcomer")
		before := newcomer.DeepCopy()
		var copies []*v1.Pod
		for _, p := range s.plain.pods {
			copies = append(copies, p.DeepCopy())
		}
		first := Decide(newcomer, s.ledger)
		if diff := cmp.Diff(first, Decide(newcomer, s.ledger)); diff != "" {
			t.Fatalf("decided twice (-first +second):\n%s", diff)
		}
		if diff := cmp.Diff(before, newcomer); diff != "" {
			t.Fatalf("the Pod was changed:\n%s", diff)
		}
		for _, p := range copies {
			if diff := cmp.Diff(p, s.plain.pods[keyOf(p).String()]); diff != "" {
				t.Fatalf("a Pod of the cluster was changed:\n%s", diff)
			}
		}
	})
}
