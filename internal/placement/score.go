package placement

import (
	"cmp"
	"hash/fnv"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"muster.dev/muster/internal/coverage"
)

// full is the best a node can do in one of the scores.
const full = 100

// The weights of the scores, in the proportions of Kubernetes' scheduler.
const (
	weightLeastAllocated = 1
	weightNodeAffinity   = 2
	weightPodAffinity    = 2
	weightSpread         = 2
	weightTaints         = 3
)

// best is the room with the highest score. Among equals the one with the fewest
// Pods wins, then the one that Pod and node name single out: the same Pod
// always lands on the same of two equal nodes, different Pods spread out.
func (r *Request) best(rooms []*NodeRoom) *NodeRoom {
	scores, best := r.scores(rooms), 0
	for i := range rooms {
		order := cmp.Or(
			cmp.Compare(scores[i], scores[best]),
			cmp.Compare(len(rooms[best].pods), len(rooms[i].pods)),
		)
		if order == 0 {
			order = cmp.Or(cmp.Compare(r.lot(rooms[i]), r.lot(rooms[best])), cmp.Compare(rooms[best].name, rooms[i].name))
		}
		if order > 0 {
			best = i
		}
	}
	return rooms[best]
}

// lot is a number drawn from the names of Pod and node.
func (r *Request) lot(room *NodeRoom) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(r.pod.Namespace + "/" + r.pod.Name + "@" + room.name))
	return hash.Sum64()
}

// scores are the rooms' scores, one each.
func (r *Request) scores(rooms []*NodeRoom) []int64 {
	total := make([]int64, len(rooms))
	add := func(weight int64, score func(*NodeRoom) int64, normal func([]int64)) {
		raw := make([]int64, len(rooms))
		for i, room := range rooms {
			raw[i] = score(room)
		}
		normal(raw)
		for i := range raw {
			total[i] += weight * raw[i]
		}
	}
	add(weightLeastAllocated, r.leastAllocated, asIs)
	if preferred := r.preferredNodes(); preferred != nil {
		add(weightNodeAffinity, preferred, moreIsBetter)
	}
	add(weightTaints, r.avoidedTaints, lessIsBetter)
	if preferred := preferredTerms(r.pod); len(preferred) > 0 {
		add(weightPodAffinity, r.company(preferred), moreIsBetter)
	}
	if soft := constraints(r.pod, v1.ScheduleAnyway); len(soft) > 0 {
		add(weightSpread, r.crowding(soft), lessIsBetter)
	}
	return total
}

func asIs([]int64) {}

// moreIsBetter and lessIsBetter stretch raw numbers over 0 to full.
func moreIsBetter(raw []int64) {
	low, high := slices.Min(raw), slices.Max(raw)
	for i := range raw {
		if raw[i] = (raw[i] - low) * full; high > low {
			raw[i] /= high - low
		}
	}
}

func lessIsBetter(raw []int64) {
	for i := range raw {
		raw[i] = -raw[i]
	}
	moreIsBetter(raw)
}

// leastAllocated is how much of CPU and memory would stay free, in percent.
func (r *Request) leastAllocated(room *NodeRoom) int64 {
	var score int64
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		capacity := room.capacity[name]
		if free := capacity - room.requested[name] - r.wants[name]; free > 0 {
			score += int64(full * float64(free) / float64(capacity))
		}
	}
	return score / 2
}

// preferredNodes scores by preferred node affinity; nil where the Pod has none.
func (r *Request) preferredNodes() func(*NodeRoom) int64 {
	affinity := r.pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil ||
		len(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		return nil
	}
	terms, err := nodeaffinity.NewPreferredSchedulingTerms(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	if err != nil {
		return nil // a preference that cannot be read prefers nothing
	}
	return func(room *NodeRoom) int64 { return terms.Score(room.node) }
}

// avoidedTaints counts the taints that ask to keep off where possible.
func (r *Request) avoidedTaints(room *NodeRoom) int64 {
	var count int64
	for i := range room.node.Spec.Taints {
		taint := &room.node.Spec.Taints[i]
		if taint.Effect == v1.TaintEffectPreferNoSchedule && !coverage.Tolerates(r.pod.Spec.Tolerations, taint) {
			count++
		}
	}
	return count
}

// preferredTerms are the Pod's preferred affinity and anti-affinity, the latter
// with negative weight.
func preferredTerms(pod *v1.Pod) []term {
	if pod.Spec.Affinity == nil {
		return nil
	}
	var result []term
	add := func(from []v1.WeightedPodAffinityTerm, sign int64) {
		for i := range from {
			t := newTerm(pod, &from[i].PodAffinityTerm)
			t.weight = sign * int64(from[i].Weight)
			result = append(result, t)
		}
	}
	if affinity := pod.Spec.Affinity.PodAffinity; affinity != nil {
		add(affinity.PreferredDuringSchedulingIgnoredDuringExecution, 1)
	}
	if anti := pod.Spec.Affinity.PodAntiAffinity; anti != nil {
		add(anti.PreferredDuringSchedulingIgnoredDuringExecution, -1)
	}
	return result
}

// company weighs the Pods around a node by the preferred terms.
func (r *Request) company(preferred []term) func(*NodeRoom) int64 {
	around := tally{}
	return func(room *NodeRoom) int64 {
		var sum int64
		for i := range preferred {
			t := &preferred[i]
			value, labelled := room.node.Labels[t.topologyKey]
			if !labelled {
				continue
			}
			count := around.in(r, t.topologyKey, value, i, func(pod *v1.Pod) bool { return t.selects(pod, r.ledger.namespaces) })
			sum += t.weight * int64(count)
		}
		return sum
	}
}

// crowding counts the Pods in a node's domains that soft spreading speaks of.
func (r *Request) crowding(soft []constraint) func(*NodeRoom) int64 {
	r.countDomains(soft)
	return func(room *NodeRoom) int64 {
		var sum int64
		for i := range soft {
			sum += int64(soft[i].counts[room.node.Labels[soft[i].topologyKey]])
		}
		return sum
	}
}
