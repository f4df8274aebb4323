package podplan

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// view is the Pod and what was observed, put in the order the rules ask for.
type view struct {
	pod  *v1.Pod
	seen Observed
	now  time.Time
	// sandbox is the one that lives; nil when there is none.
	sandbox *Sandbox
	inits   []*member // init steps and sidecars, as declared
	apps    []*member
	// ephemerals are for looking into the Pod: none of its states depends on them.
	ephemerals []*member
	ending     *ending // why the Pod must stop; nil while it need not
}

func look(pod *v1.Pod, seen Observed, now time.Time) *view {
	v := &view{pod: pod, seen: seen, now: now}
	if len(seen.Sandboxes) > 0 && seen.Sandboxes[0].Ready {
		v.sandbox = &seen.Sandboxes[0]
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		role := initStep
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			role = sidecar
		}
		v.inits = append(v.inits, v.member(c, role))
	}
	for i := range pod.Spec.Containers {
		v.apps = append(v.apps, v.member(&pod.Spec.Containers[i], app))
	}
	for i := range pod.Spec.EphemeralContainers {
		c := v1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		v.ephemerals = append(v.ephemerals, v.member(&c, ephemeral))
	}
	v.giveTurns()
	v.ending = v.whyEnding()
	return v
}

func (v *view) member(c *v1.Container, role role) *member {
	m := &member{Container: c, role: role, policy: effectivePolicy(v.pod, c)}
	for _, a := range v.seen.Attempts {
		if a.Container != c.Name {
			continue
		}
		if a.BrokenOff {
			m.brokenOff = append(m.brokenOff, a)
			continue
		}
		m.attempts = append(m.attempts, a)
		if v.sandbox != nil && a.SandboxID == v.sandbox.ID {
			m.current = append(m.current, a)
		}
	}
	return m
}

// members are all containers that make up the Pod, in the order in which they start.
func (v *view) members() []*member { return slices.Concat(v.inits, v.apps) }

// strays are live attempts outside of the present sandbox.
func (v *view) strays() []Attempt {
	var all []Attempt
	for _, a := range v.seen.Attempts {
		if a.live() && (v.sandbox == nil || a.SandboxID != v.sandbox.ID) {
			all = append(all, a)
		}
	}
	return all
}

// unstarted are attempts that were made and never started in a sandbox that is no
// more. The runtime may still be at it, so they are in the way until removed.
func (v *view) unstarted() []Attempt {
	var all []Attempt
	for _, a := range v.seen.Attempts {
		stands := slices.ContainsFunc(v.seen.Sandboxes, func(s Sandbox) bool { return s.ID == a.SandboxID && s.stands() })
		if a.State == RunCreated && !a.Gone && !stands {
			all = append(all, a)
		}
	}
	return all
}

// after is the end of a wait that began at from. A beginning in the future, as
// when the clock was set back, says nothing: the wait is over.
func (v *view) after(from time.Time, wait time.Duration) time.Time {
	if from.After(v.now) {
		return time.Time{}
	}
	return from.Add(wait)
}
