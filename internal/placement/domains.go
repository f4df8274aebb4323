package placement

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// domains files rooms by the labels that topology keys ask about: key, value,
// node name. A key is filed when it is first asked for, since most labels never
// are, and kept up from then on.
type domains map[string]map[string]map[string]*NodeRoom

func (d domains) add(room *NodeRoom) {
	for key := range d {
		d.addUnder(key, room)
	}
}

func (d domains) addUnder(key string, room *NodeRoom) {
	value, labelled := room.node.Labels[key]
	if !labelled {
		return
	}
	if d[key][value] == nil {
		d[key][value] = map[string]*NodeRoom{}
	}
	d[key][value][room.name] = room
}

func (d domains) remove(room *NodeRoom) {
	for key, values := range d {
		value := room.node.Labels[key]
		delete(values[value], room.name)
		if len(values[value]) == 0 {
			delete(values, value)
		}
	}
}

// domain is the rooms whose node carries the label with this value.
func (l *Ledger) domain(key, value string) map[string]*NodeRoom {
	if l.domains[key] == nil {
		l.domains[key] = map[string]map[string]*NodeRoom{}
		for _, room := range l.rooms {
			if room.node != nil {
				l.domains.addUnder(key, room)
			}
		}
	}
	return l.domains[key][value]
}

// repelling files the Pods that keep others away (required anti-affinity) by
// where they do so: topology key, the value on their own node, the Pod.
type repelling map[string]map[string]map[types.NamespacedName]*holding

func (r repelling) add(node *v1.Node, held *holding) {
	for _, term := range held.repels {
		value, labelled := node.Labels[term.topologyKey]
		if !labelled {
			continue
		}
		if r[term.topologyKey] == nil {
			r[term.topologyKey] = map[string]map[types.NamespacedName]*holding{}
		}
		if r[term.topologyKey][value] == nil {
			r[term.topologyKey][value] = map[types.NamespacedName]*holding{}
		}
		r[term.topologyKey][value][keyOf(held.pod)] = held
	}
}

func (r repelling) remove(node *v1.Node, held *holding) {
	for _, term := range held.repels {
		key, value := term.topologyKey, node.Labels[term.topologyKey]
		delete(r[key][value], keyOf(held.pod))
		if len(r[key][value]) == 0 {
			delete(r[key], value)
		}
		if len(r[key]) == 0 {
			delete(r, key)
		}
	}
}
