package placement

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// node is a node with four CPUs, 8Gi and room for ten Pods, and the changes asked for.
func node(name string, changes ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{v1.LabelHostname: name}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("10"),
		}},
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

func labelled(pairs ...string) func(*v1.Node) {
	return func(n *v1.Node) {
		for i := 0; i < len(pairs); i += 2 {
			n.Labels[pairs[i]] = pairs[i+1]
		}
	}
}

func tainted(key, value string, effect v1.TaintEffect) func(*v1.Node) {
	return func(n *v1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Value: value, Effect: effect})
	}
}

func has(name v1.ResourceName, quantity string) func(*v1.Node) {
	return func(n *v1.Node) { n.Status.Allocatable[name] = resource.MustParse(quantity) }
}

// pod is a Pod in the namespace default with one container, and the changes asked for.
func pod(name string, changes ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{}},
		Spec:       v1.PodSpec{Containers: []v1.Container{container("main", "")}},
		Status:     v1.PodStatus{Phase: v1.PodPending},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// container asks for an amount of CPU, if any.
func container(name, cpu string) v1.Container {
	c := v1.Container{Name: name}
	if cpu != "" {
		c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	}
	return c
}

func sidecar(name, cpu string) v1.Container {
	c, always := container(name, cpu), v1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

func on(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = node } }

func asks(name v1.ResourceName, quantity string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		requests := &p.Spec.Containers[0].Resources.Requests
		if *requests == nil {
			*requests = v1.ResourceList{}
		}
		(*requests)[name] = resource.MustParse(quantity)
	}
}

func inits(containers ...v1.Container) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.InitContainers = containers }
}

func tagged(pairs ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for i := 0; i < len(pairs); i += 2 {
			p.Labels[pairs[i]] = pairs[i+1]
		}
	}
}

func tolerates(key string, operator v1.TolerationOperator, value string, effect v1.TaintEffect) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: key, Operator: operator, Value: value, Effect: effect})
	}
}

func port(protocol v1.Protocol, ip string, number int32) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports,
			v1.ContainerPort{Protocol: protocol, HostIP: ip, HostPort: number, ContainerPort: number})
	}
}

func phase(phase v1.PodPhase) func(*v1.Pod) { return func(p *v1.Pod) { p.Status.Phase = phase } }

func terminating(p *v1.Pod) {
	now := metav1.Unix(1000, 0)
	p.DeletionTimestamp = &now
}

// app is a term that speaks of Pods labelled app=value.
func app(value, topologyKey string) v1.PodAffinityTerm {
	return v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}, TopologyKey: topologyKey}
}

func affinityOf(p *v1.Pod) *v1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	return p.Spec.Affinity
}

func near(terms ...v1.PodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		affinityOf(p).PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
}

func awayFrom(terms ...v1.PodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		affinityOf(p).PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
}

func onNodes(term v1.NodeSelectorTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		affinityOf(p).NodeAffinity = &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{term},
		}}
	}
}

func named(name string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{name}}}}
}

// spread spreads Pods labelled app=value over a topology.
func spread(value, topologyKey string, maxSkew int32, changes ...func(*v1.TopologySpreadConstraint)) func(*v1.Pod) {
	return func(p *v1.Pod) {
		c := v1.TopologySpreadConstraint{
			MaxSkew: maxSkew, TopologyKey: topologyKey, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}},
		}
		for _, change := range changes {
			change(&c)
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}

// ledgerOf is a ledger that has seen the nodes and Pods.
func ledgerOf(nodes []*v1.Node, pods []*v1.Pod) *Ledger {
	l := NewLedger()
	for _, n := range nodes {
		l.SetNode(n)
	}
	for _, p := range pods {
		l.SetPod(p)
	}
	return l
}
