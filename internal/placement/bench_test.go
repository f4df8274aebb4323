package placement

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// fleet is a ledger of many nodes in ten zones with thirty Pods each, all of
// which keep a second one of their kind off their node.
func fleet(b *testing.B, nodes int) *Ledger {
	b.Helper()
	ledger := NewLedger()
	for i := range nodes {
		name := fmt.Sprintf("n%05d", i)
		ledger.SetNode(node(name, labelled(zone, fmt.Sprint(i%10)), has(v1.ResourcePods, "110")))
		for j := range 30 {
			kind := fmt.Sprintf("app-%d", j)
			ledger.SetPod(pod(fmt.Sprintf("%s-%d", name, j), on(name), asks(v1.ResourceCPU, "100m"), tagged("app", kind),
				awayFrom(app(kind, v1.LabelHostname))))
		}
	}
	return ledger
}

func BenchmarkFits(b *testing.B) {
	ledger := fleet(b, 5000)
	cases := map[string]*v1.Pod{
		"plain":        pod("p", asks(v1.ResourceCPU, "100m")),
		"anti-by-node": pod("p", tagged("app", "x"), awayFrom(app("x", v1.LabelHostname))),
		"near-by-node": pod("p", near(app("app-1", v1.LabelHostname))),
		"near-by-zone": pod("p", near(app("app-1", zone))),
		"spread":       pod("p", tagged("app", "x"), spread("x", zone, 1)),
	}
	for name, p := range cases {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Fits(p, ledger, "n02500")
			}
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	ledger := fleet(b, 5000)
	cases := map[string]*v1.Pod{
		"plain":   pod("p", asks(v1.ResourceCPU, "100m")),
		"pinned":  pod("p", asks(v1.ResourceCPU, "9"), onNodes(named("n02500"))),
		"nowhere": pod("p", asks(v1.ResourceCPU, "9")),
		"anti":    pod("p", tagged("app", "x"), awayFrom(app("x", v1.LabelHostname))),
	}
	for name, p := range cases {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Decide(p, ledger)
			}
		})
	}
}

func BenchmarkSetPod(b *testing.B) {
	ledger := fleet(b, 1000)
	p := pod("n00500-3", on("n00500"), asks(v1.ResourceCPU, "100m"), tagged("app", "app-3"), awayFrom(app("app-3", v1.LabelHostname)))
	for b.Loop() {
		ledger.SetPod(p)
	}
}
