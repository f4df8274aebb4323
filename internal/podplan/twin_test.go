package podplan

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// mayStart is the slow and obvious answer to "which containers are to be started
// now, as which attempt", for Pods without a deadline whose images are fetched
// if they are not there. It asks each rule of each container, one by one.
func mayStart(pod *v1.Pod, seen Observed, now time.Time) map[string]int {
	starts := map[string]int{}
	if !seen.Volumes.Ready || twinPresent(seen) == "" || twinEnds(pod, seen) {
		return starts
	}
	for _, c := range twinContainers(pod) {
		if twinTurn(pod, seen, c) && twinDown(seen, c) && twinRested(seen, c, now) && twinReady(seen, c, now) {
			starts[c.name] = twinNumber(seen, c)
		}
	}
	return starts
}

type twin struct {
	name          string
	init, sidecar bool
	policy        v1.RestartPolicy
	startup       bool
	pulls         bool // for each attempt
}

func twinContainers(pod *v1.Pod) []twin {
	var all []twin
	for _, c := range pod.Spec.InitContainers {
		side := c.RestartPolicy != nil
		t := twin{name: c.Name, init: true, sidecar: side, policy: pod.Spec.RestartPolicy, startup: c.StartupProbe != nil, pulls: c.ImagePullPolicy == v1.PullAlways}
		if side {
			t.policy = v1.RestartPolicyAlways
		}
		all = append(all, t)
	}
	for _, c := range pod.Spec.Containers {
		all = append(all, twin{name: c.Name, policy: pod.Spec.RestartPolicy, pulls: c.ImagePullPolicy == v1.PullAlways})
	}
	return all
}

func twinPresent(seen Observed) string {
	newest, ready := -1, ""
	for _, s := range seen.Sandboxes {
		if s.Attempt > newest {
			newest, ready = s.Attempt, ""
			if s.Ready {
				ready = s.ID
			}
		}
	}
	return ready
}

// twinRuns are the attempts at a container, in one sandbox or (sandbox empty) all.
func twinRuns(seen Observed, name, sandbox string) []Attempt {
	var all []Attempt
	for _, a := range seen.Attempts {
		if a.Container == name && (sandbox == "" || a.SandboxID == sandbox) {
			all = append(all, a)
		}
	}
	return all
}

func twinOver(a Attempt) bool { return a.State == RunExited || a.Gone }

func twinGood(a Attempt) bool { return a.State == RunExited && a.ExitCode == 0 }

// twinEnds says that the Pod is being deleted or has done what it was for.
func twinEnds(pod *v1.Pod, seen Observed) bool {
	if seen.Terminating != nil || pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded {
		return true
	}
	done := true
	for _, c := range twinContainers(pod) {
		runs := twinRuns(seen, c.name, "")
		ended := len(runs) > 0 && twinOver(runs[len(runs)-1])
		good := ended && twinGood(runs[len(runs)-1])
		switch {
		case c.sidecar:
		case c.init:
			if ended && !good && c.policy == v1.RestartPolicyNever && !twinPassed(pod, seen, c) {
				return true
			}
		case !ended || c.policy == v1.RestartPolicyAlways || (c.policy == v1.RestartPolicyOnFailure && !good):
			done = false
		}
	}
	return done
}

// twinPassed says that what stands after an init container need not wait for it.
func twinPassed(pod *v1.Pod, seen Observed, c twin) bool {
	sandbox, after := twinPresent(seen), false
	for _, other := range twinContainers(pod) {
		if after && len(twinRuns(seen, other.name, sandbox)) > 0 {
			return true
		}
		after = after || other.name == c.name
	}
	runs := twinRuns(seen, c.name, sandbox)
	if !c.sidecar {
		for _, a := range runs {
			if twinGood(a) {
				return true
			}
		}
		return false
	}
	if len(runs) == 0 || runs[len(runs)-1].State != RunRunning || runs[len(runs)-1].Gone {
		return false
	}
	if p, ok := seen.Probes[c.name]; ok && p.ContainerID == runs[len(runs)-1].ID {
		return p.Started
	}
	for _, reported := range pod.Status.InitContainerStatuses {
		if reported.ContainerID == "containerd://"+runs[len(runs)-1].ID && *reported.Started {
			return true
		}
	}
	return !c.startup
}

func twinTurn(pod *v1.Pod, seen Observed, c twin) bool {
	for _, before := range twinContainers(pod) {
		if before.name == c.name {
			break
		}
		if before.init && !twinPassed(pod, seen, before) {
			return false
		}
	}
	if c.init && !c.sidecar {
		return !twinPassed(pod, seen, c)
	}
	return true
}

// twinDown says that no attempt runs, and that the last one calls for another.
func twinDown(seen Observed, c twin) bool {
	for _, a := range twinRuns(seen, c.name, twinPresent(seen)) {
		if !twinOver(a) && a.State != RunCreated {
			return false
		}
	}
	runs := twinRuns(seen, c.name, "")
	if len(runs) == 0 || c.init {
		return true
	}
	last := runs[len(runs)-1]
	if twinOver(last) {
		return c.policy == v1.RestartPolicyAlways || (c.policy == v1.RestartPolicyOnFailure && !twinGood(last))
	}
	return true
}

// twinRested goes through all ends of the container and counts the wait up.
func twinRested(seen Observed, c twin, now time.Time) bool {
	waits := []int{0, 10, 20, 40, 80, 160, 300}
	level := -1
	var until time.Time
	for _, a := range twinRuns(seen, c.name, "") {
		if !twinOver(a) {
			until = time.Time{}
			continue
		}
		if c.init && !c.sidecar && twinGood(a) {
			level, until = -1, time.Time{}
			continue
		}
		end := a.FinishedAt
		if end.IsZero() {
			end = a.StartedAt
		}
		if end.IsZero() {
			end = a.CreatedAt
		}
		if level++; !a.StartedAt.IsZero() && end.Sub(a.StartedAt) >= 10*time.Minute {
			level = 0
		}
		until = end.Add(time.Duration(waits[min(level, len(waits)-1)]) * time.Second)
	}
	return !now.Before(until)
}

// twinReady says that the image is there and no failed start is waited for.
func twinReady(seen Observed, c twin, now time.Time) bool {
	waits := []int{10, 20, 40, 80, 160, 300}
	if f, ok := seen.StartFailures[c.name]; ok && now.Before(f.At.Add(time.Duration(waits[min(f.Count, len(waits))-1])*time.Second)) {
		return false
	}
	runs := twinRuns(seen, c.name, twinPresent(seen))
	made := len(runs) > 0 && runs[len(runs)-1].State == RunCreated && !runs[len(runs)-1].Gone
	image := seen.Images[c.name]
	return made || (image.Present && (!c.pulls || image.PulledFor == twinNumber(seen, c)))
}

func twinNumber(seen Observed, c twin) int {
	number := -1
	for _, a := range twinRuns(seen, c.name, "") {
		number = a.Number
		if a.State != RunCreated || a.Gone || a.SandboxID != twinPresent(seen) {
			number++
		}
	}
	return max(number, 0)
}
