package placement

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Ledger is who holds room where: all nodes, the Pods on them, and the Pods
// that were decided but not yet seen on their node. It is changed one node or
// Pod at a time; asking costs what the answer needs, not the size of the fleet.
// Objects handed to it are kept and never changed. It is not safe for
// concurrent use, not even for reading.
type Ledger struct {
	rooms map[string]*NodeRoom
	nodes int // rooms whose node is known
	// where says which node each Pod holds room on.
	where map[types.NamespacedName]string
	// assumed Pods were decided and are not seen bound yet, until the time given.
	assumed    map[types.NamespacedName]time.Time
	namespaces map[string]labels.Set
	domains    domains
	repelling  repelling
}

// NewLedger is an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{
		rooms: map[string]*NodeRoom{}, where: map[types.NamespacedName]string{},
		assumed: map[types.NamespacedName]time.Time{}, namespaces: map[string]labels.Set{},
		domains: domains{}, repelling: repelling{},
	}
}

// SetNode adds the node or replaces what is known of it.
func (l *Ledger) SetNode(node *v1.Node) {
	room := l.room(node.Name)
	if room.node == nil {
		l.nodes++
	}
	relabelled := room.node == nil || !maps.Equal(room.node.Labels, node.Labels)
	if relabelled {
		l.unindex(room)
	}
	room.setNode(node)
	if relabelled {
		l.index(room)
	}
}

// RemoveNode forgets the node. Its Pods keep their hold, in case it comes back.
func (l *Ledger) RemoveNode(name string) {
	room := l.rooms[name]
	if room == nil || room.node == nil {
		return
	}
	l.nodes--
	l.unindex(room)
	room.node, room.capacity = nil, nil
	l.dropIfEmpty(room)
}

// SetNamespace records the labels that namespace selectors look at.
func (l *Ledger) SetNamespace(namespace *v1.Namespace) {
	l.namespaces[namespace.Name] = namespace.Labels
}

// RemoveNamespace forgets them.
func (l *Ledger) RemoveNamespace(name string) { delete(l.namespaces, name) }

// SetPod records a Pod as the API shows it. A Pod on a node holds room there;
// an ended Pod holds none; a Pod that is shown unbound keeps what was assumed
// for it, since a decision runs ahead of what is seen.
func (l *Ledger) SetPod(pod *v1.Pod) {
	key := keyOf(pod)
	_, assumed := l.assumed[key]
	switch {
	case ended(pod):
		l.release(key)
	case pod.Spec.NodeName != "":
		l.release(key)
		l.hold(pod, pod.Spec.NodeName)
	case !assumed:
		l.release(key)
	}
}

// RemovePod records that the API no longer has the Pod. It is ignored where a
// newer Pod has taken the name.
func (l *Ledger) RemovePod(pod *v1.Pod) {
	key := keyOf(pod)
	if held := l.heldBy(key); held != nil && held.pod.UID == pod.UID {
		l.release(key)
	}
}

// Assume holds room for a Pod on a node before the API shows it there. The hold
// ends when the Pod is seen bound, ended or removed, when it is forgotten, or
// at until, should none of that ever be seen.
func (l *Ledger) Assume(pod *v1.Pod, node string, until time.Time) {
	key := keyOf(pod)
	l.release(key)
	l.hold(pod, node)
	l.assumed[key] = until
}

// Assumed says whether the Pod was decided and is not yet seen on its node.
func (l *Ledger) Assumed(key types.NamespacedName) bool {
	_, assumed := l.assumed[key]
	return assumed
}

// Forget takes back what was assumed for the Pod, and says on which node; a Pod
// seen on its node is left alone.
func (l *Ledger) Forget(key types.NamespacedName) (node string, freed bool) {
	if !l.Assumed(key) {
		return "", false
	}
	node = l.where[key]
	l.release(key)
	return node, true
}

// Expire forgets what was assumed for longer than agreed, and says on which
// nodes and when it must next be asked; zero means not before the next Assume.
func (l *Ledger) Expire(now time.Time) (freed []string, next time.Time) {
	for key, until := range l.assumed {
		switch {
		case !now.Before(until):
			freed = append(freed, l.where[key])
			l.release(key)
		case next.IsZero() || until.Before(next):
			next = until
		}
	}
	slices.Sort(freed)
	return slices.Compact(freed), next
}

// ended Pods hold nothing any more.
func ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

func (l *Ledger) room(name string) *NodeRoom {
	room := l.rooms[name]
	if room == nil {
		room = newRoom(name)
		l.rooms[name] = room
	}
	return room
}

func (l *Ledger) heldBy(key types.NamespacedName) *holding {
	if room := l.rooms[l.where[key]]; room != nil {
		return room.pods[key]
	}
	return nil
}

func (l *Ledger) hold(pod *v1.Pod, node string) {
	room, held := l.room(node), newHolding(pod)
	room.add(held)
	l.where[keyOf(pod)] = node
	if room.node != nil {
		l.repelling.add(room.node, held)
	}
}

func (l *Ledger) release(key types.NamespacedName) {
	held := l.heldBy(key)
	if held == nil {
		return
	}
	room := l.rooms[l.where[key]]
	room.remove(held)
	if room.node != nil {
		l.repelling.remove(room.node, held)
	}
	delete(l.where, key)
	delete(l.assumed, key)
	l.dropIfEmpty(room)
}

func (l *Ledger) dropIfEmpty(room *NodeRoom) {
	if room.node == nil && len(room.pods) == 0 {
		delete(l.rooms, room.name)
	}
}

// index and unindex file a room, and the Pods in it that keep others away,
// under the labels of its node.
func (l *Ledger) index(room *NodeRoom) {
	l.domains.add(room)
	for _, held := range room.pods {
		l.repelling.add(room.node, held)
	}
}

func (l *Ledger) unindex(room *NodeRoom) {
	if room.node == nil {
		return
	}
	l.domains.remove(room)
	for _, held := range room.pods {
		l.repelling.remove(room.node, held)
	}
}
