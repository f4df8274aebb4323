package placement

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// takes says that the node still takes a Pod that wants all of it.
func takes(l *Ledger, node string) bool {
	return len(Fits(pod("probe", asks(v1.ResourceCPU, "4")), l, node)) == 0
}

func TestWhatIsAssumedCountsUntilItIsSeenOrTakenBack(t *testing.T) {
	whole := func(changes ...func(*v1.Pod)) *v1.Pod {
		return pod("p", append([]func(*v1.Pod){asks(v1.ResourceCPU, "4")}, changes...)...)
	}
	other := func(p *v1.Pod) { p.UID = "another" }
	cases := []struct {
		name string
		then func(l *Ledger)
		free bool // a is free afterwards
		held bool // and still assumed
	}{
		{"nothing happens", func(l *Ledger) {}, false, true},
		{"old news shows it unbound", func(l *Ledger) { l.SetPod(whole()) }, false, true},
		{"it is seen on the node", func(l *Ledger) { l.SetPod(whole(on("a"))) }, false, false},
		{"it is seen on another", func(l *Ledger) { l.SetPod(whole(on("b"))) }, true, false},
		{"it has ended", func(l *Ledger) { l.SetPod(whole(on("a"), phase(v1.PodFailed))) }, true, false},
		{"it failed unbound", func(l *Ledger) { l.SetPod(whole(phase(v1.PodFailed))) }, true, false},
		{"it is gone", func(l *Ledger) { l.RemovePod(whole()) }, true, false},
		{"an older Pod of the name is gone", func(l *Ledger) { l.RemovePod(whole(other)) }, false, true},
		{"it is forgotten", func(l *Ledger) { l.Forget(keyOf(whole())) }, true, false},
		{"its time has not come", func(l *Ledger) { l.Expire(start.Add(29 * time.Second)) }, false, true},
		{"its time has come", func(l *Ledger) { l.Expire(start.Add(30 * time.Second)) }, true, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := ledgerOf([]*v1.Node{node("a"), node("b")}, nil)
			l.Assume(whole(), "a", start.Add(30*time.Second))
			c.then(l)
			if got := takes(l, "a"); got != c.free {
				t.Errorf("a is free: %v", got)
			}
			if got := l.Assumed(keyOf(whole())); got != c.held {
				t.Errorf("still assumed: %v", got)
			}
		})
	}
}

func TestForgettingAPodThatIsSeenChangesNothing(t *testing.T) {
	bound := pod("p", on("a"), asks(v1.ResourceCPU, "4"))
	l := ledgerOf([]*v1.Node{node("a")}, []*v1.Pod{bound})
	if _, freed := l.Forget(keyOf(bound)); freed || takes(l, "a") {
		t.Error("a bound Pod lost its room")
	}
}

func TestExpireSaysWhatIsFreeAndWhenToAskAgain(t *testing.T) {
	l := ledgerOf([]*v1.Node{node("a"), node("b")}, nil)
	l.Assume(pod("p"), "b", start.Add(10*time.Second))
	l.Assume(pod("q"), "a", start.Add(10*time.Second))
	l.Assume(pod("r"), "a", start.Add(20*time.Second))
	if freed, next := l.Expire(start); len(freed) > 0 || !next.Equal(start.Add(10*time.Second)) {
		t.Errorf("at the start: freed %v, next %v", freed, next)
	}
	if freed, next := l.Expire(start.Add(10 * time.Second)); !slices.Equal(freed, []string{"a", "b"}) || !next.Equal(start.Add(20*time.Second)) {
		t.Errorf("after 10 s: freed %v, next %v", freed, next)
	}
	if freed, next := l.Expire(start.Add(time.Hour)); !slices.Equal(freed, []string{"a"}) || !next.IsZero() {
		t.Errorf("after an hour: freed %v, next %v", freed, next)
	}
}

func TestPodsAreKnownBeforeTheirNode(t *testing.T) {
	l := ledgerOf(nil, []*v1.Pod{pod("q", on("a"), asks(v1.ResourceCPU, "1"), awayFrom(app("web", zone)))})
	if decision := Decide(pod("p"), l); decision.Nodes > 0 || decision.Placed() {
		t.Fatalf("a node that is only spoken of is used: %+v", decision)
	}
	l.SetNode(node("a", labelled(zone, "z")))
	if takes(l, "a") {
		t.Error("the Pod that was there first is not counted")
	}
	l.RemoveNode("a")
	l.SetNode(node("a", labelled(zone, "z")))
	if takes(l, "a") {
		t.Error("the Pod is not counted once its node is back")
	}
	if got := Fits(pod("w", tagged("app", "web")), l, "a"); len(got) != 1 {
		t.Errorf("the Pod that keeps others away does not: %v", got)
	}
}

func TestRelabelledNodeChangesItsTopology(t *testing.T) {
	l := ledgerOf([]*v1.Node{node("a", labelled(zone, "z1")), node("b", labelled(zone, "z1"))},
		[]*v1.Pod{pod("q", on("a"), tagged("app", "db"), awayFrom(app("web", zone)))})
	company, web := pod("p", near(app("db", zone))), pod("w", tagged("app", "web"))
	if got := Fits(company, l, "b"); len(got) > 0 {
		t.Fatalf("before: %v", got)
	}
	if got := Fits(web, l, "b"); len(got) == 0 {
		t.Fatal("before: the web Pod is not kept away")
	}
	l.SetNode(node("b", labelled(zone, "z2")))
	if got := Fits(company, l, "b"); len(got) == 0 {
		t.Error("b has left the zone and its company")
	}
	if got := Fits(web, l, "b"); len(got) > 0 {
		t.Errorf("b has left the zone and is still closed: %v", got)
	}
}
