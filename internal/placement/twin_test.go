package placement

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"muster.dev/muster/internal/reason"
)

// plain is a cluster as two lists: what the ledger stands for, without an index,
// a sum or a count kept. Its answers are slow and simple.
type plain struct {
	nodes      map[string]*v1.Node
	pods       map[string]*v1.Pod // by namespace and name; bound or assumed, not ended
	namespaces map[string]map[string]string
	// blind makes it forget one rule, to show that the comparison would notice.
	blind reason.Code
}

// refuses is the codes for which the Pod does not fit on the node.
func (c *plain) refuses(p *v1.Pod, on *v1.Node) []reason.Code {
	codes := map[reason.Code]bool{
		reason.Unschedulable:        on.Spec.Unschedulable && !tolerated(p, v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}),
		reason.UntoleratedTaint:     !allTolerated(p, on),
		reason.NodeSelector:         !selected(p, on),
		reason.HostPortTaken:        c.portTaken(p, on),
		reason.InsufficientResource: c.short(p, on),
		reason.TooManyPods:          int64(len(c.podsOn(on))) >= on.Status.Allocatable.Pods().Value(),
		reason.PodAffinity:          !c.hasCompany(p, on),
		reason.PodAntiAffinity:      c.avoids(p, on),
		reason.ExistingAntiAffinity: c.avoided(p, on),
		reason.TopologySpread:       c.uneven(p, on),
		reason.TopologySpreadLabel:  c.offTheMap(p, on),
	}
	var result []reason.Code
	for code, refused := range codes {
		if refused && code != c.blind {
			result = append(result, code)
		}
	}
	slices.Sort(result)
	return result
}

func (c *plain) podsOn(on *v1.Node) (found []*v1.Pod) {
	for _, p := range c.pods {
		if p.Spec.NodeName == on.Name {
			found = append(found, p)
		}
	}
	return found
}

func tolerated(p *v1.Pod, taint v1.Taint) bool {
	for _, toleration := range p.Spec.Tolerations {
		keyed := toleration.Key == "" || toleration.Key == taint.Key
		valued := toleration.Operator == v1.TolerationOpExists || toleration.Value == taint.Value
		if keyed && valued && (toleration.Effect == "" || toleration.Effect == taint.Effect) {
			return true
		}
	}
	return false
}

func allTolerated(p *v1.Pod, on *v1.Node) bool {
	for _, taint := range on.Spec.Taints {
		if taint.Effect != v1.TaintEffectPreferNoSchedule && !tolerated(p, taint) {
			return false
		}
	}
	return true
}

func selected(p *v1.Pod, on *v1.Node) bool {
	ok, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(on)
	return ok && err == nil
}

func (c *plain) portTaken(p *v1.Pod, on *v1.Node) bool {
	for _, other := range c.podsOn(on) {
		for _, a := range p.Spec.Containers[0].Ports {
			for _, b := range other.Spec.Containers[0].Ports {
				all := a.HostIP == "" || b.HostIP == "" || a.HostIP == "0.0.0.0" || b.HostIP == "0.0.0.0"
				if a.HostPort == b.HostPort && a.Protocol == b.Protocol && (all || a.HostIP == b.HostIP) {
					return true
				}
			}
		}
	}
	return false
}

// cpu is what the Pod asks for, in thousandths; the drawn Pods have one init
// step at most and no sidecar.
func cpu(p *v1.Pod) int64 {
	asked := p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
	for _, step := range p.Spec.InitContainers {
		asked = max(asked, step.Resources.Requests.Cpu().MilliValue())
	}
	return asked
}

func (c *plain) short(p *v1.Pod, on *v1.Node) bool {
	free := on.Status.Allocatable.Cpu().MilliValue()
	for _, other := range c.podsOn(on) {
		free -= cpu(other)
	}
	return cpu(p) > 0 && cpu(p) > free
}

func (c *plain) speaksOf(owner *v1.Pod, term v1.PodAffinityTerm, p *v1.Pod) bool {
	inside := slices.Contains(term.Namespaces, p.Namespace)
	if term.NamespaceSelector != nil {
		selector, _ := metav1.LabelSelectorAsSelector(term.NamespaceSelector)
		inside = inside || selector.Matches(labels.Set(c.namespaces[p.Namespace]))
	} else if len(term.Namespaces) == 0 {
		inside = owner.Namespace == p.Namespace
	}
	selector, _ := metav1.LabelSelectorAsSelector(term.LabelSelector)
	return inside && selector.Matches(labels.Set(p.Labels))
}

// together says that both nodes carry the label with one value.
func together(a, b *v1.Node, key string) bool {
	x, hasX := a.Labels[key]
	y, hasY := b.Labels[key]
	return hasX && hasY && x == y
}

func (c *plain) hasCompany(p *v1.Pod, on *v1.Node) bool {
	terms := p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	everyTerm := func(other *v1.Pod) bool {
		return !slices.ContainsFunc(terms, func(t v1.PodAffinityTerm) bool { return !c.speaksOf(p, t, other) })
	}
	satisfied, anywhere := true, false
	for _, t := range terms {
		if _, ok := on.Labels[t.TopologyKey]; !ok {
			return false
		}
		here := false
		for _, other := range c.pods {
			at := c.nodes[other.Spec.NodeName]
			if at == nil || !everyTerm(other) {
				continue
			}
			if _, ok := at.Labels[t.TopologyKey]; ok {
				anywhere = true
			}
			here = here || together(at, on, t.TopologyKey)
		}
		satisfied = satisfied && here
	}
	return satisfied || !anywhere && everyTerm(p)
}

func (c *plain) avoids(p *v1.Pod, on *v1.Node) bool {
	for _, t := range p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		for _, other := range c.pods {
			if at := c.nodes[other.Spec.NodeName]; at != nil && c.speaksOf(p, t, other) && together(at, on, t.TopologyKey) {
				return true
			}
		}
	}
	return false
}

func (c *plain) avoided(p *v1.Pod, on *v1.Node) bool {
	for _, other := range c.pods {
		at := c.nodes[other.Spec.NodeName]
		for _, t := range other.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			if at != nil && c.speaksOf(other, t, p) && together(at, on, t.TopologyKey) {
				return true
			}
		}
	}
	return false
}

func (c *plain) offTheMap(p *v1.Pod, on *v1.Node) bool {
	// The first constraint that says no is the one that is told.
	for _, s := range p.Spec.TopologySpreadConstraints {
		if _, ok := on.Labels[s.TopologyKey]; !ok {
			return true
		}
		if c.tooMany(p, on, s) {
			return false
		}
	}
	return false
}

func (c *plain) uneven(p *v1.Pod, on *v1.Node) bool {
	for _, s := range p.Spec.TopologySpreadConstraints {
		if _, ok := on.Labels[s.TopologyKey]; !ok {
			return false
		}
		if c.tooMany(p, on, s) {
			return true
		}
	}
	return false
}

func (c *plain) tooMany(p *v1.Pod, on *v1.Node, s v1.TopologySpreadConstraint) bool {
	selector, _ := metav1.LabelSelectorAsSelector(s.LabelSelector)
	counts := map[string]int{}
	for _, n := range c.nodes {
		everyKey := !slices.ContainsFunc(p.Spec.TopologySpreadConstraints, func(s v1.TopologySpreadConstraint) bool {
			_, ok := n.Labels[s.TopologyKey]
			return !ok
		})
		if !everyKey || !selected(p, n) {
			continue
		}
		counts[n.Labels[s.TopologyKey]] += 0
		for _, other := range c.podsOn(n) {
			if other.Namespace == p.Namespace && other.DeletionTimestamp == nil && selector.Matches(labels.Set(other.Labels)) {
				counts[n.Labels[s.TopologyKey]]++
			}
		}
	}
	least := -1
	for _, count := range counts {
		if least < 0 || count < least {
			least = count
		}
	}
	own := 0
	if selector.Matches(labels.Set(p.Labels)) {
		own = 1
	}
	return counts[on.Labels[s.TopologyKey]]+own-max(least, 0) > int(s.MaxSkew)
}

// difference says where ledger and plain cluster disagree about the Pod; empty
// where they agree.
func (c *plain) difference(l *Ledger, p *v1.Pod) string {
	for name, n := range c.nodes {
		var got []reason.Code
		for _, r := range Fits(p, l, name) {
			if !slices.Contains(got, r.Code) {
				got = append(got, r.Code)
			}
		}
		slices.Sort(got)
		if want := c.refuses(p, n); !slices.Equal(got, want) {
			return fmt.Sprintf("node %s: the ledger says %v, the plain cluster %v", name, got, want)
		}
	}
	return ""
}
