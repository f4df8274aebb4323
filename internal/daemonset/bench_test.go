package daemonset_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/daemonset"
	"muster.dev/muster/internal/testkit/build"
)

// BenchmarkNews is the cost of one Pod's news in a fleet of five thousand: one
// cell of the matrix, and one decision.
func BenchmarkNews(b *testing.B) {
	f := newFleet(build.DaemonSet("logd"))
	for i := range 5000 {
		name := fmt.Sprintf("n%04d", i)
		f.nodes[name] = build.Node(name)
	}
	f.apply(f.decide())
	f.serve()
	matrix := coverage.New()
	matrix.SetDaemon(f.set)
	for _, node := range f.nodes {
		matrix.SetNode(node)
	}
	pods := slices.Collect(maps.Values(f.pods))
	for _, pod := range pods {
		matrix.SetPod(pod)
	}
	revisions := slices.Collect(maps.Values(f.revisions))
	b.Run("matrix", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			matrix.SetPod(pods[i%len(pods)])
		}
	})
	b.Run("decide", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			column, _ := matrix.Column(f.set.UID)
			if plan := daemonset.Decide(daemonset.Input{Column: column, Revisions: revisions, Fits: f.fits}, f.now); plan.Acts() {
				b.Fatal("the fleet is not at rest")
			}
		}
	})
}
