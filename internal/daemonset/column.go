package daemonset

import (
	"iter"
	"strings"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/reason"
)

// podsOf are all Pods of a column, those adrift last.
func podsOf(column coverage.Column) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for _, cell := range column.Cells {
			for _, pod := range cell.Pods {
				if !yield(pod) {
					return
				}
			}
		}
		for _, pod := range column.Adrift {
			if !yield(pod) {
				return
			}
		}
	}
}

// liveHashes are the revisions that Pods of the set still carry.
func liveHashes(column coverage.Column) map[string]bool {
	live := map[string]bool{}
	for pod := range podsOf(column) {
		live[coverage.RevisionOf(pod)] = true
	}
	return live
}

func byName(a, b *v1.Pod) int { return strings.Compare(a.Name, b.Name) }

func texts(reasons []reason.Reason) string {
	all := make([]string, len(reasons))
	for i, each := range reasons {
		all[i] = each.Text()
	}
	return strings.Join(all, "; ")
}
