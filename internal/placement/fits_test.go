package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/reason"
)

// why is the answer a case expects: one reason, or none.
func why(code reason.Code, object, asked, free, detail string) []reason.Reason {
	return []reason.Reason{{Code: code, Object: object, Asked: asked, Free: free, Detail: detail}}
}

const zone = v1.LabelTopologyZone

func TestFits(t *testing.T) {
	zones := []*v1.Node{node("a", labelled(zone, "z1")), node("b", labelled(zone, "z1")), node("c", labelled(zone, "z2"))}
	negative := func(term v1.PodAffinityTerm, change func(*v1.PodAffinityTerm)) v1.PodAffinityTerm {
		change(&term)
		return term
	}
	honor, ignore, two := v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore, int32(2)
	cases := []struct {
		name  string
		nodes []*v1.Node
		pods  []*v1.Pod
		pod   *v1.Pod
		on    string // a where empty
		want  []reason.Reason
	}{
		{name: "an empty node takes a small Pod", pod: pod("p", asks(v1.ResourceCPU, "1"))},
		{name: "a node nobody knows", pod: pod("p"), on: "x", want: why(reason.NodeUnknown, "x", "", "", "")},
		{name: "the whole of what is left", pods: []*v1.Pod{pod("q", on("a"), asks(v1.ResourceCPU, "1"))}, pod: pod("p", asks(v1.ResourceCPU, "3"))},
		{name: "more than is left", pods: []*v1.Pod{pod("q", on("a"), asks(v1.ResourceCPU, "1500m"))}, pod: pod("p", asks(v1.ResourceCPU, "3")),
			want: why(reason.InsufficientResource, "cpu", "3", "2500m", "")},
		{name: "short of two things", pod: pod("p", asks(v1.ResourceMemory, "9Gi"), asks(v1.ResourceCPU, "5")), want: []reason.Reason{
			{Code: reason.InsufficientResource, Object: "cpu", Asked: "5", Free: "4"},
			{Code: reason.InsufficientResource, Object: "memory", Asked: "9Gi", Free: "8Gi"},
		}},
		{name: "an extended resource that is there", nodes: []*v1.Node{node("a", has("x.io/gpu", "2"))}, pod: pod("p", asks("x.io/gpu", "2"))},
		{name: "an extended resource that is taken", nodes: []*v1.Node{node("a", has("x.io/gpu", "2"))},
			pods: []*v1.Pod{pod("q", on("a"), asks("x.io/gpu", "1"))}, pod: pod("p", asks("x.io/gpu", "2")),
			want: why(reason.InsufficientResource, "x.io/gpu", "2", "1", "")},
		{name: "an extended resource the node has never heard of", pod: pod("p", asks("x.io/gpu", "1")),
			want: why(reason.InsufficientResource, "x.io/gpu", "1", "0", "")},
		{name: "a Pod that asks for nothing fits an overcommitted node",
			pods: []*v1.Pod{pod("q", on("a"), asks(v1.ResourceCPU, "9"))}, pod: pod("p")},
		{name: "one Pod too many", nodes: []*v1.Node{node("a", has(v1.ResourcePods, "1"))}, pods: []*v1.Pod{pod("q", on("a"))}, pod: pod("p"),
			want: why(reason.TooManyPods, "", "1", "0", "")},
		{name: "ended Pods free what they held", pods: []*v1.Pod{
			pod("q", on("a"), asks(v1.ResourceCPU, "4"), phase(v1.PodSucceeded)), pod("r", on("a"), asks(v1.ResourceCPU, "4"), phase(v1.PodFailed)),
		}, pod: pod("p", asks(v1.ResourceCPU, "4"))},
		{name: "terminating Pods hold it until they are gone", pods: []*v1.Pod{pod("q", on("a"), asks(v1.ResourceCPU, "4"), terminating)},
			pod: pod("p", asks(v1.ResourceCPU, "1")), want: why(reason.InsufficientResource, "cpu", "1", "0", "")},

		{name: "a taint that is not tolerated", nodes: []*v1.Node{node("a", tainted("k", "v", v1.TaintEffectNoSchedule))}, pod: pod("p"),
			want: why(reason.UntoleratedTaint, "k=v:NoSchedule", "", "", "")},
		{name: "NoExecute keeps away too", nodes: []*v1.Node{node("a", tainted("k", "", v1.TaintEffectNoExecute))}, pod: pod("p"),
			want: why(reason.UntoleratedTaint, "k:NoExecute", "", "", "")},
		{name: "PreferNoSchedule does not", nodes: []*v1.Node{node("a", tainted("k", "v", v1.TaintEffectPreferNoSchedule))}, pod: pod("p")},
		{name: "tolerated by value", nodes: []*v1.Node{node("a", tainted("k", "v", v1.TaintEffectNoSchedule))},
			pod: pod("p", tolerates("k", v1.TolerationOpEqual, "v", ""))},
		{name: "another value is not tolerated", nodes: []*v1.Node{node("a", tainted("k", "v", v1.TaintEffectNoSchedule))},
			pod: pod("p", tolerates("k", v1.TolerationOpEqual, "w", "")), want: why(reason.UntoleratedTaint, "k=v:NoSchedule", "", "", "")},
		{name: "another effect is not tolerated", nodes: []*v1.Node{node("a", tainted("k", "v", v1.TaintEffectNoSchedule))},
			pod: pod("p", tolerates("k", v1.TolerationOpExists, "", v1.TaintEffectNoExecute)), want: why(reason.UntoleratedTaint, "k=v:NoSchedule", "", "", "")},
		{name: "everything is tolerated", nodes: []*v1.Node{node("a", tainted("k", "v", v1.TaintEffectNoSchedule), tainted("l", "", v1.TaintEffectNoExecute))},
			pod: pod("p", tolerates("", v1.TolerationOpExists, "", ""))},
		{name: "a malformed number tolerates nothing, quietly", nodes: []*v1.Node{node("a", tainted("k", "v", v1.TaintEffectNoSchedule))},
			pod: pod("p", tolerates("k", v1.TolerationOpGt, "many", "")), want: why(reason.UntoleratedTaint, "k=v:NoSchedule", "", "", "")},
		{name: "a cordoned node", nodes: []*v1.Node{node("a", func(n *v1.Node) { n.Spec.Unschedulable = true })}, pod: pod("p"),
			want: why(reason.Unschedulable, "a", "", "", "")},
		{name: "a cordoned node and a Pod that comes all the same", nodes: []*v1.Node{node("a", func(n *v1.Node) { n.Spec.Unschedulable = true })},
			pod: pod("p", tolerates(v1.TaintNodeUnschedulable, v1.TolerationOpExists, "", v1.TaintEffectNoSchedule))},

		{name: "spec.nodeName of this node", pod: pod("p", on("a"))},
		{name: "spec.nodeName of another", pod: pod("p", on("b")), want: why(reason.NodeName, "b", "", "", "")},
		{name: "a selector that matches", nodes: []*v1.Node{node("a", labelled("disk", "ssd"))}, pod: pod("p", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })},
		{name: "a selector that does not", pod: pod("p", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }),
			want: why(reason.NodeSelector, "spec.nodeSelector disk=ssd", "", "", "")},
		{name: "affinity by name", pod: pod("p", onNodes(named("a")))},
		{name: "affinity by another name", pod: pod("p", onNodes(named("b"))), want: why(reason.NodeSelector, "spec.affinity.nodeAffinity", "", "", "")},
		{name: "affinity that cannot be read fits nowhere", pod: pod("p", onNodes(v1.NodeSelectorTerm{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: "k", Operator: v1.NodeSelectorOpGt, Values: []string{"no number"}}}})),
			want: why(reason.NodeSelector, "spec.affinity.nodeAffinity", "", "", "")},

		{name: "a host port that is taken", pods: []*v1.Pod{pod("q", on("a"), port(v1.ProtocolTCP, "", 80))}, pod: pod("p", port("", "", 80)),
			want: why(reason.HostPortTaken, "TCP 0.0.0.0:80", "", "", "default/q")},
		{name: "the same port of another protocol", pods: []*v1.Pod{pod("q", on("a"), port(v1.ProtocolTCP, "", 80))}, pod: pod("p", port(v1.ProtocolUDP, "", 80))},
		{name: "another port", pods: []*v1.Pod{pod("q", on("a"), port(v1.ProtocolTCP, "", 80))}, pod: pod("p", port(v1.ProtocolTCP, "", 81))},
		{name: "the same port of two addresses", pods: []*v1.Pod{pod("q", on("a"), port(v1.ProtocolTCP, "10.0.0.1", 80))}, pod: pod("p", port(v1.ProtocolTCP, "10.0.0.2", 80))},
		{name: "one address against all", pods: []*v1.Pod{pod("q", on("a"), port(v1.ProtocolTCP, "10.0.0.1", 80))}, pod: pod("p", port(v1.ProtocolTCP, "0.0.0.0", 80)),
			want: why(reason.HostPortTaken, "TCP 0.0.0.0:80", "", "", "default/q")},
		{name: "all addresses against one", pods: []*v1.Pod{pod("q", on("a"), port(v1.ProtocolTCP, "", 80))}, pod: pod("p", port(v1.ProtocolTCP, "10.0.0.1", 80)),
			want: why(reason.HostPortTaken, "TCP 10.0.0.1:80", "", "", "default/q")},
		{name: "a terminating Pod holds its port", pods: []*v1.Pod{pod("q", on("a"), port(v1.ProtocolTCP, "", 80), terminating)}, pod: pod("p", port(v1.ProtocolTCP, "", 80)),
			want: why(reason.HostPortTaken, "TCP 0.0.0.0:80", "", "", "default/q")},
		{name: "a port held on another node", nodes: []*v1.Node{node("a"), node("b")}, pods: []*v1.Pod{pod("q", on("b"), port(v1.ProtocolTCP, "", 80))}, pod: pod("p", port(v1.ProtocolTCP, "", 80))},
		{name: "a sidecar's port counts", pods: []*v1.Pod{pod("q", on("a"), inits(withPort(sidecar("s", ""), 80)))}, pod: pod("p", port(v1.ProtocolTCP, "", 80)),
			want: why(reason.HostPortTaken, "TCP 0.0.0.0:80", "", "", "default/q")},
		{name: "an init step's does not", pods: []*v1.Pod{pod("q", on("a"), inits(withPort(container("i", ""), 80)))}, pod: pod("p", port(v1.ProtocolTCP, "", 80))},

		{name: "company in the zone", nodes: zones, pods: []*v1.Pod{pod("q", on("b"), tagged("app", "db"))}, pod: pod("p", near(app("db", zone)))},
		{name: "no company in the zone", nodes: zones, pods: []*v1.Pod{pod("q", on("c"), tagged("app", "db"))}, pod: pod("p", near(app("db", zone))),
			want: why(reason.PodAffinity, zone, "", "", "")},
		{name: "company in another namespace is none", nodes: zones, pods: []*v1.Pod{pod("q", on("b"), tagged("app", "db"), in("other"))}, pod: pod("p", near(app("db", zone))),
			want: why(reason.PodAffinity, zone, "", "", "")},
		{name: "company in a namespace that is named", nodes: zones, pods: []*v1.Pod{pod("q", on("b"), tagged("app", "db"), in("other"))},
			pod: pod("p", near(negative(app("db", zone), func(a *v1.PodAffinityTerm) { a.Namespaces = []string{"other"} })))},
		{name: "company in any namespace", nodes: zones, pods: []*v1.Pod{pod("q", on("b"), tagged("app", "db"), in("other"))},
			pod: pod("p", near(negative(app("db", zone), func(a *v1.PodAffinityTerm) { a.NamespaceSelector = &metav1.LabelSelector{} })))},
		{name: "a node without the label has no company", nodes: []*v1.Node{node("a"), node("b", labelled(zone, "z1"))}, pods: []*v1.Pod{pod("q", on("b"), tagged("app", "db"))},
			pod: pod("p", near(app("db", zone))), want: why(reason.PodAffinity, zone, "", "", "")},
		{name: "the first of its kind", nodes: zones, pod: pod("p", tagged("app", "db"), near(app("db", zone)))},
		{name: "the second of its kind is not free to go anywhere", nodes: zones, pods: []*v1.Pod{pod("q", on("c"), tagged("app", "db"))},
			pod: pod("p", tagged("app", "db"), near(app("db", zone))), want: why(reason.PodAffinity, zone, "", "", "")},
		{name: "all terms must speak of the same company", nodes: zones, pods: []*v1.Pod{pod("q", on("b"), tagged("app", "db")), pod("r", on("b"), tagged("app", "web"))},
			pod: pod("p", near(app("db", zone), app("web", zone))), want: why(reason.PodAffinity, zone, "", "", "")},

		{name: "C39: kept away by what it avoids", nodes: zones, pods: []*v1.Pod{pod("q", on("a"), tagged("app", "db"))}, pod: pod("p", awayFrom(app("db", v1.LabelHostname))),
			want: why(reason.PodAntiAffinity, v1.LabelHostname, "", "", "")},
		{name: "what it avoids is next door", nodes: zones, pods: []*v1.Pod{pod("q", on("b"), tagged("app", "db"))}, pod: pod("p", awayFrom(app("db", v1.LabelHostname)))},
		{name: "what it avoids is in the zone", nodes: zones, pods: []*v1.Pod{pod("q", on("b"), tagged("app", "db"))}, pod: pod("p", awayFrom(app("db", zone))),
			want: why(reason.PodAntiAffinity, zone, "", "", "")},
		{name: "a node without the label is no topology", nodes: []*v1.Node{node("a"), node("b", labelled(zone, "z1"))}, pods: []*v1.Pod{pod("q", on("a"), tagged("app", "db"))},
			pod: pod("p", awayFrom(app("db", zone)))},
		{name: "a Pod does not avoid itself", pods: []*v1.Pod{}, pod: pod("p", tagged("app", "db"), awayFrom(app("db", v1.LabelHostname)))},
		{name: "kept away by one that is there", nodes: zones, pods: []*v1.Pod{pod("q", on("b"), awayFrom(app("web", zone)))}, pod: pod("p", tagged("app", "web")),
			want: why(reason.ExistingAntiAffinity, zone, "", "", "default/q")},
		{name: "one that is there avoids others", nodes: zones, pods: []*v1.Pod{pod("q", on("b"), awayFrom(app("web", zone)))}, pod: pod("p", tagged("app", "db"))},
		{name: "one that has ended avoids nobody", nodes: zones, pods: []*v1.Pod{pod("q", on("b"), awayFrom(app("web", zone)), phase(v1.PodSucceeded))}, pod: pod("p", tagged("app", "web"))},

		{name: "evenly spread", nodes: zones, pods: []*v1.Pod{pod("q", on("c"), tagged("app", "w"))}, pod: pod("p", tagged("app", "w"), spread("w", zone, 1))},
		{name: "too uneven", nodes: zones, pods: []*v1.Pod{pod("q", on("b"), tagged("app", "w"))}, pod: pod("p", tagged("app", "w"), spread("w", zone, 1)),
			want: why(reason.TopologySpread, zone, "", "", "")},
		{name: "as uneven as allowed", nodes: zones, pods: []*v1.Pod{pod("q", on("b"), tagged("app", "w"))}, pod: pod("p", tagged("app", "w"), spread("w", zone, 2))},
		{name: "Pods on their way out do not count", nodes: zones, pods: []*v1.Pod{pod("q", on("b"), tagged("app", "w"), terminating)}, pod: pod("p", tagged("app", "w"), spread("w", zone, 1))},
		{name: "a node without the label takes no part", nodes: []*v1.Node{node("a"), node("b", labelled(zone, "z1"))}, pod: pod("p", spread("w", zone, 1)),
			want: why(reason.TopologySpreadLabel, zone, "", "", "")},
		{name: "only nodes the Pod may use count", nodes: []*v1.Node{node("a", labelled(zone, "z1", "disk", "ssd")), node("c", labelled(zone, "z2"))}, pods: []*v1.Pod{pod("q", on("a"), tagged("app", "w"))},
			pod: pod("p", tagged("app", "w"), spread("w", zone, 1), selects("disk", "ssd"))},
		{name: "unless all shall count", nodes: []*v1.Node{node("a", labelled(zone, "z1", "disk", "ssd")), node("c", labelled(zone, "z2"))}, pods: []*v1.Pod{pod("q", on("a"), tagged("app", "w"))},
			pod:  pod("p", tagged("app", "w"), spread("w", zone, 1, func(c *v1.TopologySpreadConstraint) { c.NodeAffinityPolicy = &ignore }), selects("disk", "ssd")),
			want: why(reason.TopologySpread, zone, "", "", "")},
		{name: "tainted nodes count", nodes: []*v1.Node{node("a", labelled(zone, "z1")), node("c", labelled(zone, "z2"), tainted("k", "", v1.TaintEffectNoSchedule))}, pods: []*v1.Pod{pod("q", on("a"), tagged("app", "w"))},
			pod: pod("p", tagged("app", "w"), spread("w", zone, 1)), want: why(reason.TopologySpread, zone, "", "", "")},
		{name: "unless taints are honoured", nodes: []*v1.Node{node("a", labelled(zone, "z1")), node("c", labelled(zone, "z2"), tainted("k", "", v1.TaintEffectNoSchedule))}, pods: []*v1.Pod{pod("q", on("a"), tagged("app", "w"))},
			pod: pod("p", tagged("app", "w"), spread("w", zone, 1, func(c *v1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &honor }))},
		{name: "fewer domains than asked for are as if one were empty", nodes: []*v1.Node{node("a", labelled(zone, "z1"))}, pods: []*v1.Pod{pod("q", on("a"), tagged("app", "w"))},
			pod:  pod("p", tagged("app", "w"), spread("w", zone, 1, func(c *v1.TopologySpreadConstraint) { c.MinDomains = &two })),
			want: why(reason.TopologySpread, zone, "", "", "")},
		{name: "only Pods with the same revision count", nodes: zones, pods: []*v1.Pod{pod("q", on("b"), tagged("app", "w", "rev", "1"))},
			pod: pod("p", tagged("app", "w", "rev", "2"), spread("w", zone, 1, func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"rev"} }))},
		{name: "soft spreading refuses nothing", nodes: zones, pods: []*v1.Pod{pod("q", on("b"), tagged("app", "w"))},
			pod: pod("p", tagged("app", "w"), spread("w", zone, 1, func(c *v1.TopologySpreadConstraint) { c.WhenUnsatisfiable = v1.ScheduleAnyway }))},

		{name: "gates", pod: pod("p", func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "x"}, {Name: "y"}} }),
			want: why(reason.SchedulingGated, "default/p", "", "", "x, y")},
		{name: "a claim", pod: pod("p", volume("data", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}})),
			want: why(reason.UnservedField, "spec.volumes[0].persistentVolumeClaim (data)", "", "", volumeRemedy)},
		{name: "CSI", pod: pod("p", volume("data", v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "d"}})),
			want: why(reason.UnservedField, "spec.volumes[0].csi (data)", "", "", volumeRemedy)},
		{name: "a network volume", pod: pod("p", volume("ok", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), volume("data", v1.VolumeSource{NFS: &v1.NFSVolumeSource{}})),
			want: why(reason.UnservedField, "spec.volumes[1].nfs (data)", "", "", volumeRemedy)},
		{name: "a projection nobody serves", pod: pod("p", volume("data", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{}}, {ClusterTrustBundle: &v1.ClusterTrustBundleProjection{}}}}})),
			want: why(reason.UnservedField, "spec.volumes[0].projected.sources[1].clusterTrustBundle (data)", "", "", projectionRemedy)},
		{name: "every volume that is served", pod: pod("p",
			volume("1", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), volume("2", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}),
			volume("3", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}), volume("4", v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}),
			volume("5", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{}}), volume("6", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}))},
		{name: "resource claims", pod: pod("p", func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}} }),
			want: why(reason.UnservedField, "spec.resourceClaims", "", "", "ask for the device as an extended resource in resources.limits")},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.nodes == nil {
				c.nodes = []*v1.Node{node("a")}
			}
			if c.on == "" {
				c.on = "a"
			}
			got := Fits(c.pod, ledgerOf(c.nodes, c.pods), c.on)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			for _, r := range got {
				if r.Text() == "" || r.Remedy() == "" {
					t.Errorf("%s has text %q and remedy %q", r.Code, r.Text(), r.Remedy())
				}
			}
		})
	}
}

func withPort(c v1.Container, number int32) v1.Container {
	c.Ports = []v1.ContainerPort{{HostPort: number, ContainerPort: number, Protocol: v1.ProtocolTCP}}
	return c
}

func in(namespace string) func(*v1.Pod) { return func(p *v1.Pod) { p.Namespace = namespace } }

func selects(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

func volume(name string, source v1.VolumeSource) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source}) }
}

func TestFitsSaysEveryReason(t *testing.T) {
	ledger := ledgerOf([]*v1.Node{node("a", tainted("k", "", v1.TaintEffectNoSchedule))}, nil)
	got := Fits(pod("p", selects("disk", "ssd"), asks(v1.ResourceCPU, "5")), ledger, "a")
	var codes []reason.Code
	for _, r := range got {
		codes = append(codes, r.Code)
	}
	if diff := cmp.Diff([]reason.Code{reason.UntoleratedTaint, reason.NodeSelector, reason.InsufficientResource}, codes); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
}

// TestC67 holds the effective request against the table of the behaviour.
func TestC67(t *testing.T) {
	quantity := func(cpu string) v1.ResourceList { return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)} }
	main := asks(v1.ResourceCPU, "250m")
	cases := []struct {
		name string
		pod  *v1.Pod
		want string
	}{
		{"init steps do not add up", pod("p", inits(container("a", "200m"), container("b", "300m")), main), "300m"},
		{"a step smaller than the containers", pod("p", inits(container("a", "200m")), main), "250m"},
		{"a sidecar before the last step", pod("p", inits(container("a", "200m"), sidecar("s", "100m"), container("b", "300m")), main), "400m"},
		{"a sidecar after it", pod("p", inits(container("a", "200m"), container("b", "300m"), sidecar("s", "100m")), main), "350m"},
		{"overhead comes on top", pod("p", main, func(p *v1.Pod) { p.Spec.Overhead = quantity("50m") }), "300m"},
		{"what the Pod declares for itself", pod("p", inits(container("a", "2")), main, func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: quantity("700m")}
		}), "700m"},
		{"a resize counts with the larger size", pod("p", main, func(p *v1.Pod) {
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "main", AllocatedResources: quantity("900m")}}
		}), "900m"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := Requests(c.pod)[v1.ResourceCPU]; got.Cmp(resource.MustParse(c.want)) != 0 {
				t.Errorf("the Pod asks for %s, want %s", got.String(), c.want)
			}
			for _, fits := range []bool{true, false} {
				room := resource.MustParse(c.want)
				if !fits {
					room.Sub(resource.MustParse("1m"))
				}
				ledger := ledgerOf([]*v1.Node{node("a", has(v1.ResourceCPU, room.String()))}, nil)
				if got := Fits(c.pod, ledger, "a"); (len(got) == 0) != fits {
					t.Errorf("on a node with %s: %v", room.String(), got)
				}
			}
		})
	}
}
