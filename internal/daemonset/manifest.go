package daemonset

import (
	"crypto/sha256"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"muster.dev/muster/internal/coverage"
)

// Lengths of a Pod's name: it should still be a host name with the suffix on.
const (
	nameLength   = 63
	suffixLength = 10
)

// PodName is the name of a set's Pod on a node. With surge, where two Pods of a
// set share a node, revision tells them apart; without, it is empty.
func PodName(set *appsv1.DaemonSet, node types.UID, revision string) string {
	sum := sha256.Sum256([]byte(string(set.UID) + "/" + string(node) + "/" + revision))
	base := set.Name
	if len(base) > nameLength-suffixLength-1 {
		base = strings.TrimRight(base[:nameLength-suffixLength-1], "-.")
	}
	return base + "-" + rand.SafeEncodeString(latin(sum[:suffixLength]))
}

// latin keeps every byte a single rune, which is what SafeEncodeString expects.
func latin(raw []byte) string {
	var b strings.Builder
	for _, each := range raw {
		b.WriteByte(each % 128)
	}
	return b.String()
}

// manifest is the set's Pod for a node, not yet bound to it.
func manifest(set *appsv1.DaemonSet, node *v1.Node, hash string, surges bool) *v1.Pod {
	revision := ""
	if surges {
		revision = hash
	}
	template := set.Spec.Template.DeepCopy()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            PodName(set, node.UID, revision),
			Namespace:       set.Namespace,
			Labels:          maps.Clone(template.Labels),
			Annotations:     template.Annotations,
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, ControllerKind)},
		},
		Spec: template.Spec,
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = hash
	if generation := set.Annotations[appsv1.DeprecatedTemplateGeneration]; generation != "" {
		pod.Labels["pod-template-generation"] = generation
	}
	pod.Spec.Tolerations = coverage.Tolerations(&template.Spec)
	aim(&pod.Spec, node.Name)
	return pod
}

// aim makes a Pod's required node affinity name one node. What the template
// required has chosen the node and is replaced; what it prefers stays.
func aim(spec *v1.PodSpec, nodeName string) {
	if spec.Affinity == nil {
		spec.Affinity = &v1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &v1.NodeAffinity{}
	}
	spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{nodeName},
			}},
		}},
	}
}

// bindable says that muster may bind the set's Pods itself: no gate holds them
// and no other scheduler is asked for.
func bindable(spec *v1.PodSpec) bool {
	return len(spec.SchedulingGates) == 0 && (spec.SchedulerName == "" || spec.SchedulerName == v1.DefaultSchedulerName)
}
