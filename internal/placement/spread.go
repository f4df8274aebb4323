package placement

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"muster.dev/muster/internal/reason"
)

// constraint is one topology spread constraint with the counts it goes by.
type constraint struct {
	topologyKey  string
	selector     labels.Selector
	maxSkew      int
	minDomains   int
	honorTaints  bool
	ignoreLabels bool // count nodes the Pod's selector and affinity rule out
	own          int  // one if the Pod itself counts
	counts       map[string]int
	fewest       int
}

func constraints(pod *v1.Pod, action v1.UnsatisfiableConstraintAction) []constraint {
	var result []constraint
	for i := range pod.Spec.TopologySpreadConstraints {
		if from := &pod.Spec.TopologySpreadConstraints[i]; from.WhenUnsatisfiable == action {
			result = append(result, newConstraint(pod, from))
		}
	}
	return result
}

func newConstraint(pod *v1.Pod, from *v1.TopologySpreadConstraint) constraint {
	c := constraint{
		topologyKey: from.TopologyKey, selector: spreadSelector(pod, from), maxSkew: int(from.MaxSkew), minDomains: 1,
		honorTaints:  from.NodeTaintsPolicy != nil && *from.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor,
		ignoreLabels: from.NodeAffinityPolicy != nil && *from.NodeAffinityPolicy == v1.NodeInclusionPolicyIgnore,
	}
	if from.MinDomains != nil {
		c.minDomains = int(*from.MinDomains)
	}
	if c.selector.Matches(labels.Set(pod.Labels)) {
		c.own = 1
	}
	return c
}

// spreadSelector is the constraint's selector narrowed by matchLabelKeys to
// Pods that carry the same values as this one.
func spreadSelector(pod *v1.Pod, from *v1.TopologySpreadConstraint) labels.Selector {
	selector := selectorOf(from.LabelSelector)
	same := labels.Set{}
	for _, key := range from.MatchLabelKeys {
		if value, labelled := pod.Labels[key]; labelled {
			same[key] = value
		}
	}
	narrowed, _ := labels.SelectorFromSet(same).Requirements()
	if len(narrowed) == 0 {
		return selector
	}
	return selector.Add(narrowed...)
}

// fitsSpread: with this Pod the node's domain would not be further above the
// emptiest domain than allowed.
func fitsSpread(r *Request, room *NodeRoom) []reason.Reason {
	r.countSpread()
	for i := range r.spread {
		c := &r.spread[i]
		value, labelled := room.node.Labels[c.topologyKey]
		if !labelled {
			return []reason.Reason{{Code: reason.TopologySpreadLabel, Object: c.topologyKey}}
		}
		if c.counts[value]+c.own-c.fewest > c.maxSkew {
			return []reason.Reason{{Code: reason.TopologySpread, Object: c.topologyKey}}
		}
	}
	return nil
}

// countSpread counts once for a request, over all nodes that take part.
func (r *Request) countSpread() {
	if r.spreadCounted {
		return
	}
	r.spreadCounted = true
	r.countDomains(r.spread)
	for i := range r.spread {
		c := &r.spread[i]
		c.fewest = 0
		if len(c.counts) >= c.minDomains {
			c.fewest = fewest(c.counts)
		}
	}
}

// countDomains fills each constraint's counts. Only nodes that carry every key
// take part, so that a node without a rack is not taken for a rack of its own.
func (r *Request) countDomains(all []constraint) {
	for i := range all {
		all[i].counts = map[string]int{}
	}
	for _, room := range r.ledger.rooms {
		if room.node == nil || !carriesEvery(room.node, all) {
			continue
		}
		for i := range all {
			if c := &all[i]; r.takesPart(c, room.node) {
				c.counts[room.node.Labels[c.topologyKey]] += r.counted(c, room)
			}
		}
	}
}

func carriesEvery(node *v1.Node, all []constraint) bool {
	return !slices.ContainsFunc(all, func(c constraint) bool {
		_, labelled := node.Labels[c.topologyKey]
		return !labelled
	})
}

func (r *Request) takesPart(c *constraint, node *v1.Node) bool {
	if !c.ignoreLabels {
		if fits, err := r.affinity.Match(node); err != nil || !fits {
			return false
		}
	}
	return !c.honorTaints || untolerated(r.pod, node.Spec.Taints, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute) == nil
}

// counted are the Pods of the room that the constraint speaks of; those on
// their way out are not evened out against.
func (r *Request) counted(c *constraint, room *NodeRoom) int {
	count := 0
	for key, held := range room.pods {
		if key != keyOf(r.pod) && held.pod.Namespace == r.pod.Namespace && held.pod.DeletionTimestamp == nil &&
			c.selector.Matches(labels.Set(held.pod.Labels)) {
			count++
		}
	}
	return count
}

func fewest(counts map[string]int) int {
	first, least := true, 0
	for _, count := range counts {
		if first || count < least {
			first, least = false, count
		}
	}
	return least
}
