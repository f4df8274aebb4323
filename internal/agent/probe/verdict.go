package probe

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// kind is which of a container's probes one is.
type kind string

const (
	startup   kind = "startup"
	readiness kind = "readiness"
	liveness  kind = "liveness"
)

// title is the kind as events spell it.
func (k kind) title() string {
	return map[kind]string{startup: "Startup", readiness: "Readiness", liveness: "Liveness"}[k]
}

// settings are a probe's numbers with the API's defaults filled in.
type settings struct {
	delay, period, timeout time.Duration
	successes, failures    int
}

func settingsOf(probe *v1.Probe) settings {
	seconds := func(value, fallback int32) time.Duration {
		if value <= 0 {
			value = fallback
		}
		return time.Duration(value) * time.Second
	}
	return settings{
		delay:     time.Duration(max(probe.InitialDelaySeconds, 0)) * time.Second,
		period:    seconds(probe.PeriodSeconds, 10),
		timeout:   seconds(probe.TimeoutSeconds, 1),
		successes: int(max(probe.SuccessThreshold, 1)),
		failures:  orDefault(probe.FailureThreshold, 3),
	}
}

func orDefault(value, fallback int32) int {
	if value <= 0 {
		return int(fallback)
	}
	return int(value)
}

// tally counts equal outcomes in a row until a threshold is reached.
type tally struct {
	settings settings
	last     bool
	row      int
}

// add counts one outcome and says whether it now decides the verdict.
func (t *tally) add(ok bool) (decided bool) {
	if ok != t.last {
		t.row = 0
	}
	t.last = ok
	t.row++
	if ok {
		return t.row >= t.settings.successes
	}
	return t.row >= t.settings.failures
}
