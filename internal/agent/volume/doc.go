// Package volume puts a Pod's volumes on the node's disk, in the kubelet's layout
// (ROOT/pods/UID/volumes/KIND/NAME), keeps their contents up to date and takes
// them away again. What a volume's files are is worked out by the pure functions
// of payload.go; how they are replaced, all at once, is in write.go.
//
// It never lists secrets or config maps (a node may only read the ones its Pods
// name, one by one), never deletes across a mount, and never acts on kinds of
// volume that muster does not serve: those leave the Pod waiting with a reason.
package volume
