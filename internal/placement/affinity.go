package placement

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"muster.dev/muster/internal/reason"
)

// term is one Pod affinity or anti-affinity term, made ready: which Pods it
// speaks of and over which topology.
type term struct {
	namespaces        []string
	namespaceSelector labels.Selector
	selector          labels.Selector
	topologyKey       string
	// weight is only set on preferred terms; negative where they repel.
	weight int64
}

// newTerm reads a term of owner. A term that names no namespace at all speaks
// of its owner's. A selector that cannot be read selects nothing: the API
// server has refused it before.
func newTerm(owner *v1.Pod, from *v1.PodAffinityTerm) term {
	t := term{namespaces: from.Namespaces, namespaceSelector: selectorOf(from.NamespaceSelector),
		selector: selectorOf(from.LabelSelector), topologyKey: from.TopologyKey}
	if len(from.Namespaces) == 0 && from.NamespaceSelector == nil {
		t.namespaces = []string{owner.Namespace}
	}
	return t
}

func selectorOf(from *metav1.LabelSelector) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(from)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

func (t *term) selects(pod *v1.Pod, namespaces map[string]labels.Set) bool {
	if !slices.Contains(t.namespaces, pod.Namespace) && !t.namespaceSelector.Matches(namespaces[pod.Namespace]) {
		return false
	}
	return t.selector.Matches(labels.Set(pod.Labels))
}

func terms(owner *v1.Pod, from []v1.PodAffinityTerm) []term {
	var result []term
	for i := range from {
		result = append(result, newTerm(owner, &from[i]))
	}
	return result
}

func affinityTerms(pod *v1.Pod) []term {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAffinity == nil {
		return nil
	}
	return terms(pod, pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
}

func antiAffinityTerms(pod *v1.Pod) []term {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return terms(pod, pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
}

// fitsExistingPods: no Pod that is there already keeps this one away.
func fitsExistingPods(r *Request, room *NodeRoom) []reason.Reason {
	var found []reason.Reason
	for key, values := range r.ledger.repelling {
		value, labelled := room.node.Labels[key]
		if !labelled {
			continue
		}
		for name, held := range values[value] {
			if name != keyOf(r.pod) && held.repelsFrom(r, key) {
				found = append(found, reason.Reason{Code: reason.ExistingAntiAffinity, Object: key, Detail: name.String()})
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	// One is enough to say, but always the same one.
	return []reason.Reason{slices.MinFunc(found, func(a, b reason.Reason) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Detail, b.Detail))
	})}
}

// repelsFrom says that the Pod keeps the request's away from its own topology.
func (held *holding) repelsFrom(r *Request, topologyKey string) bool {
	return slices.ContainsFunc(held.repels, func(t term) bool {
		return t.topologyKey == topologyKey && t.selects(r.pod, r.ledger.namespaces)
	})
}

// fitsAntiAffinity: this Pod keeps away from none that is there already.
func fitsAntiAffinity(r *Request, room *NodeRoom) []reason.Reason {
	for i := range r.repels {
		t := &r.repels[i]
		value, labelled := room.node.Labels[t.topologyKey]
		if !labelled {
			continue
		}
		count := r.repelled.in(r, t.topologyKey, value, i, func(pod *v1.Pod) bool { return t.selects(pod, r.ledger.namespaces) })
		if count > 0 {
			return []reason.Reason{{Code: reason.PodAntiAffinity, Object: t.topologyKey}}
		}
	}
	return nil
}

// fitsAffinity: in every topology asked for there is a Pod that all terms speak
// of. The first Pod of a group that wants its own company may go anywhere.
func fitsAffinity(r *Request, room *NodeRoom) []reason.Reason {
	alone := false
	for i := range r.attracts {
		t := &r.attracts[i]
		value, labelled := room.node.Labels[t.topologyKey]
		if !labelled {
			return []reason.Reason{{Code: reason.PodAffinity, Object: t.topologyKey}}
		}
		if r.attracted.in(r, t.topologyKey, value, i, r.attractedBy) == 0 {
			alone = true
		}
	}
	if alone && !r.firstOfItsKind() {
		return []reason.Reason{{Code: reason.PodAffinity, Object: r.attracts[0].topologyKey}}
	}
	return nil
}

// attractedBy says that all the Pod's affinity terms speak of other.
func (r *Request) attractedBy(other *v1.Pod) bool {
	for i := range r.attracts {
		if !r.attracts[i].selects(other, r.ledger.namespaces) {
			return false
		}
	}
	return true
}

// firstOfItsKind: the Pod wants company like itself, and there is none in any
// topology it asks about. Worked out at most once for a request.
func (r *Request) firstOfItsKind() bool {
	if r.first == unknown {
		r.first = no
		if r.attractedBy(r.pod) && !r.companyAnywhere() {
			r.first = yes
		}
	}
	return r.first == yes
}

func (r *Request) companyAnywhere() bool {
	for _, room := range r.ledger.rooms {
		if room.node == nil || !carriesAny(room.node, r.attracts) {
			continue
		}
		for key, held := range room.pods {
			if key != keyOf(r.pod) && r.attractedBy(held.pod) {
				return true
			}
		}
	}
	return false
}

func carriesAny(node *v1.Node, terms []term) bool {
	return slices.ContainsFunc(terms, func(t term) bool {
		_, labelled := node.Labels[t.topologyKey]
		return labelled
	})
}
