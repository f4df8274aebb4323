package reason

// Reasons why a Pod does not fit on a node: what placement says.
const (
	UntoleratedTaint Code = "UntoleratedTaint"
	NodeSelector     Code = "NodeSelectorMismatch"
)

var placementTable = map[Code]entry{
	UntoleratedTaint: {
		text:   "untolerated taint {object}",
		remedy: "add a toleration for {object} to the Pod template",
	},
	NodeSelector: {
		text:   "node(s) didn't match Pod's node affinity/selector",
		remedy: "label the node or change the selector: {object}",
	},
}
