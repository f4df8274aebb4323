package coverage

import (
	"fmt"
	"sort"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"muster.dev/muster/internal/reason"
)

// Verdict says whether a daemon belongs on a node.
type Verdict struct {
	// Wanted: the node is eligible and must have the daemon's Pod.
	Wanted bool
	// MayStay: a Pod that is there already is left alone. Always true where Wanted;
	// true besides where only a NoSchedule taint keeps new Pods out.
	MayStay bool
	// Reasons say why the daemon is not wanted; none where it is.
	Reasons []reason.Reason
}

// Tainted says that the node is one the daemon's own selectors choose, and only
// taints keep it out: the hole that no count of wanted Pods shows.
func (v Verdict) Tainted() bool {
	return !v.Wanted && len(v.Reasons) > 0 && v.Reasons[0].Code == reason.UntoleratedTaint
}

// Judge decides which nodes are eligible for one daemon. It is made once per
// version of the set, since selectors are costly to read and cheap to match.
type Judge struct {
	nodeName    string
	affinity    nodeaffinity.RequiredNodeAffinity
	selection   string
	tolerations []v1.Toleration
}

// NewJudge reads a set's template.
func NewJudge(set *appsv1.DaemonSet) Judge {
	spec := &set.Spec.Template.Spec
	return Judge{
		nodeName:    spec.NodeName,
		affinity:    nodeaffinity.NewRequiredNodeAffinity(spec.NodeSelector, spec.Affinity),
		selection:   selection(spec),
		tolerations: Tolerations(spec),
	}
}

// Verdict judges one node. Resources play no part: a node without room still
// wants its daemon, whose Pod then waits and says so.
func (j Judge) Verdict(node *v1.Node) Verdict {
	if j.nodeName != "" && j.nodeName != node.Name {
		return notSelected("spec.nodeName=" + j.nodeName)
	}
	// A selector that cannot be read matches nothing.
	if ok, err := j.affinity.Match(node); err != nil || !ok {
		return notSelected(j.selection)
	}
	verdict := Verdict{Wanted: true, MayStay: true}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect == v1.TaintEffectPreferNoSchedule || Tolerates(j.tolerations, taint) {
			continue
		}
		verdict.Wanted = false
		verdict.MayStay = verdict.MayStay && taint.Effect != v1.TaintEffectNoExecute
		verdict.Reasons = append(verdict.Reasons, reason.Reason{Code: reason.UntoleratedTaint, Object: taint.ToString()})
	}
	return verdict
}

func notSelected(by string) Verdict {
	return Verdict{Reasons: []reason.Reason{{Code: reason.NodeSelector, Object: by}}}
}

// selection writes a template's node selector and required affinity in one line,
// as kubectl writes selectors; the terms of an affinity are alternatives.
func selection(spec *v1.PodSpec) string {
	var parts []string
	for key, value := range spec.NodeSelector {
		parts = append(parts, key+"="+value)
	}
	sort.Strings(parts)
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil ||
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return strings.Join(parts, ",")
	}
	var terms []string
	for _, term := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		var all []string
		for _, each := range append(append([]v1.NodeSelectorRequirement(nil), term.MatchExpressions...), term.MatchFields...) {
			all = append(all, requirement(each))
		}
		terms = append(terms, strings.Join(all, ","))
	}
	return strings.Join(append(parts, strings.Join(terms, " or ")), ",")
}

func requirement(r v1.NodeSelectorRequirement) string {
	switch r.Operator {
	case v1.NodeSelectorOpExists:
		return r.Key
	case v1.NodeSelectorOpDoesNotExist:
		return "!" + r.Key
	case v1.NodeSelectorOpGt:
		return r.Key + ">" + strings.Join(r.Values, ",")
	case v1.NodeSelectorOpLt:
		return r.Key + "<" + strings.Join(r.Values, ",")
	}
	return fmt.Sprintf("%s %s (%s)", r.Key, strings.ToLower(string(r.Operator)), strings.Join(r.Values, ","))
}
