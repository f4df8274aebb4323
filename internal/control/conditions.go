package control

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// setPodCondition puts the condition into the status and says whether that
// changed anything. The time of transition moves only with the condition's
// status; conditions of other types are left as they are.
func setPodCondition(status *v1.PodStatus, condition v1.PodCondition, now time.Time) bool {
	condition.LastTransitionTime = metav1.NewTime(now)
	for i := range status.Conditions {
		old := &status.Conditions[i]
		if old.Type != condition.Type {
			continue
		}
		if old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		condition.LastProbeTime = old.LastProbeTime
		changed := *old != condition
		*old = condition
		return changed
	}
	status.Conditions = append(status.Conditions, condition)
	return true
}
