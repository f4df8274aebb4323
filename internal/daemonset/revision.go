package daemonset

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
)

// ControllerKind is what owner references say of a set.
var ControllerKind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// History is what to do about a set's revisions.
type History struct {
	// Collided says that the name of the current revision is taken by another
	// content: count it in the status, and decide again with the new count.
	Collided bool
	// Adopt are orphaned revisions that the set's selector chooses.
	Adopt []*appsv1.ControllerRevision
	// Create is the current revision where it does not exist; Raise is an older one
	// that is current again, with its new number.
	Create, Raise *appsv1.ControllerRevision
	// Delete are revisions beyond the history limit, the oldest first.
	Delete []*appsv1.ControllerRevision

	hash string          // of the current revision
	same map[string]bool // hashes of all revisions with the current content
}

func (h History) acts() bool {
	return h.Collided || len(h.Adopt)+len(h.Delete) > 0 || h.Create != nil || h.Raise != nil
}

// current says that a Pod was made from the set's present template.
func (h History) current(hash string) bool { return h.same[hash] }

// history finds the current revision among those of the namespace, or makes it.
// live are the hashes that Pods of the set still carry.
func history(set *appsv1.DaemonSet, all []*appsv1.ControllerRevision, live map[string]bool) History {
	data := patch(set)
	own, adopt := ownRevisions(set, all)
	h := History{Adopt: adopt, same: map[string]bool{}}
	var highest int64
	var equal, old []*appsv1.ControllerRevision
	for _, revision := range own {
		highest = max(highest, revision.Revision)
		if sameJSON(revision.Data.Raw, data) {
			equal = append(equal, revision)
		} else {
			old = append(old, revision)
		}
	}
	if len(equal) == 0 {
		h.create(set, all, data, highest+1)
		if h.Collided {
			return h
		}
	} else {
		current := equal[len(equal)-1]
		h.hash = current.Labels[appsv1.ControllerRevisionHashLabelKey]
		if current.Revision < highest {
			h.Raise = current.DeepCopy()
			h.Raise.Revision = highest + 1
		}
		for _, revision := range equal {
			hash := revision.Labels[appsv1.ControllerRevisionHashLabelKey]
			h.same[hash] = true
			if revision != current && !live[hash] {
				h.Delete = append(h.Delete, revision)
			}
		}
	}
	h.Delete = append(h.Delete, beyondLimit(set, old, live)...)
	return h
}

// create makes the current revision unless another one has its name.
func (h *History) create(set *appsv1.DaemonSet, all []*appsv1.ControllerRevision, data []byte, number int64) {
	revision := newRevision(set, data, number)
	for _, other := range all {
		if other.Name == revision.Name && !slices.Contains(h.Adopt, other) {
			h.Collided = true
			return
		}
	}
	h.Create = revision
	h.hash = revision.Labels[appsv1.ControllerRevisionHashLabelKey]
	h.same[h.hash] = true
}

// ownRevisions are the set's own, by number and age, with the orphans it adopts
// already among them.
func ownRevisions(set *appsv1.DaemonSet, all []*appsv1.ControllerRevision) (own, adopt []*appsv1.ControllerRevision) {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		selector = labels.Nothing()
	}
	for _, revision := range all {
		if revision.DeletionTimestamp != nil {
			continue
		}
		owner := metav1.GetControllerOfNoCopy(revision)
		switch {
		case owner != nil && owner.UID == set.UID:
			own = append(own, revision)
		case owner == nil && selector.Matches(labels.Set(revision.Labels)):
			own, adopt = append(own, revision), append(adopt, revision)
		}
	}
	slices.SortFunc(own, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(
			cmp.Compare(a.Revision, b.Revision),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
	slices.SortFunc(adopt, func(a, b *appsv1.ControllerRevision) int { return cmp.Compare(a.Name, b.Name) })
	return own, adopt
}

// beyondLimit are the oldest revisions more than the set keeps, save those that
// Pods still carry.
func beyondLimit(set *appsv1.DaemonSet, old []*appsv1.ControllerRevision, live map[string]bool) []*appsv1.ControllerRevision {
	limit := 10
	if set.Spec.RevisionHistoryLimit != nil {
		limit = int(*set.Spec.RevisionHistoryLimit)
	}
	var beyond []*appsv1.ControllerRevision
	for _, revision := range old {
		if len(old)-len(beyond) <= limit {
			break
		}
		if !live[revision.Labels[appsv1.ControllerRevisionHashLabelKey]] {
			beyond = append(beyond, revision)
		}
	}
	return beyond
}

func newRevision(set *appsv1.DaemonSet, data []byte, number int64) *appsv1.ControllerRevision {
	hash := hashOf(data, set.Status.CollisionCount)
	tags := maps.Clone(set.Spec.Template.Labels)
	if tags == nil {
		tags = map[string]string{}
	}
	tags[appsv1.ControllerRevisionHashLabelKey] = hash
	// The set's annotations stand in the revision as they were when it was made:
	// kubernetes.io/change-cause is what rollout history shows.
	notes := maps.Clone(set.Annotations)
	delete(notes, v1.LastAppliedConfigAnnotation)
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name:            set.Name + "-" + hash,
			Namespace:       set.Namespace,
			Labels:          tags,
			Annotations:     notes,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, ControllerKind)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
}

// patch is the content of a revision: the strategic merge patch that puts the
// set's present template back, in the very bytes kubectl makes of it, since
// kubectl compares them to tell whether there is anything to undo.
func patch(set *appsv1.DaemonSet) []byte {
	raw, err := json.Marshal(set.Spec.Template)
	if err != nil {
		panic("a Pod template of the API is always JSON: " + err.Error())
	}
	var template map[string]any
	if err := json.Unmarshal(raw, &template); err != nil {
		panic("a Pod template of the API is always an object: " + err.Error())
	}
	template["$patch"] = "replace"
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
	if err != nil {
		panic("what was JSON is JSON again: " + err.Error())
	}
	return data
}

// hashOf is a short name for a revision's content; collisions is how often such a
// name was found taken.
func hashOf(data []byte, collisions *int32) string {
	sum := fnv.New32a()
	sum.Write(data)
	if collisions != nil {
		sum.Write(binary.LittleEndian.AppendUint32(nil, uint32(*collisions)))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(sum.Sum32()), 10))
}

func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var left, right any
	return json.Unmarshal(a, &left) == nil && json.Unmarshal(b, &right) == nil && reflect.DeepEqual(left, right)
}
