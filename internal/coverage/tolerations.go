package coverage

import v1 "k8s.io/api/core/v1"

// automatic are the tolerations every daemon's Pod has: a daemon stays through
// the troubles of its node, and comes to a node that is cordoned.
var automatic = []v1.Toleration{
	{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
	{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
	{Key: v1.TaintNodeDiskPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodeMemoryPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodePIDPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
	{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
}

// forHostNetwork is tolerated besides by daemons that use the node's own network,
// since they may be the ones that bring the Pods' network up.
var forHostNetwork = v1.Toleration{
	Key: v1.TaintNodeNetworkUnavailable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule,
}

// Tolerations are those of a template's spec with the automatic ones of a daemon
// added where they are not there already. The spec is left as it is.
func Tolerations(spec *v1.PodSpec) []v1.Toleration {
	all := append([]v1.Toleration(nil), spec.Tolerations...)
	add := func(extra v1.Toleration) {
		for i := range all {
			if all[i].MatchToleration(&extra) {
				return
			}
		}
		all = append(all, extra)
	}
	for _, each := range automatic {
		add(each)
	}
	if spec.HostNetwork {
		add(forHostNetwork)
	}
	return all
}

// Tolerates says that one of the tolerations covers the taint.
func Tolerates(tolerations []v1.Toleration, taint *v1.Taint) bool {
	for i := range tolerations {
		if withoutLog((*v1.Toleration).ToleratesTaint, &tolerations[i], taint) {
			return true
		}
	}
	return false
}

// withoutLog calls Kubernetes' own rule, which would like a logger, with none: a
// malformed number in a toleration is the API's to refuse, not ours to log.
func withoutLog[L any](rule func(*v1.Toleration, L, *v1.Taint, bool) bool, toleration *v1.Toleration, taint *v1.Taint) bool {
	var none L
	return rule(toleration, none, taint, true)
}
