package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"muster.dev/muster/internal/runtime"
)

func TestQuantiles(t *testing.T) {
	for _, one := range []struct {
		sample           sample
		median, ninetith float64
	}{
		{sample{7}, 7, 7},
		{sample{3, 1, 2}, 2, 3},
		{sample{4, 1, 3, 2}, 2, 4},
		{sample{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 5, 9},
	} {
		if got := one.sample.median(); got != one.median {
			t.Errorf("the median of %v is %v, want %v", one.sample, got, one.median)
		}
		if got := one.sample.quantile(0.9); got != one.ninetith {
			t.Errorf("the 90th percentile of %v is %v, want %v", one.sample, got, one.ninetith)
		}
	}
	if got := (sample{}).median(); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestJudge(t *testing.T) {
	all := limits{"slow": {Ratio: 2}, "fine": {Ratio: 2}, "large": {Value: 10}, "lost": {Value: 1}, "alone": {Ratio: 2}}
	rows := []row{
		{name: "slow", ours: sample{5}, theirs: sample{2}},
		{name: "fine", ours: sample{4}, theirs: sample{2}},
		{name: "large", ours: sample{11}, unit: "MB"},
		{name: "alone", ours: sample{1}},
		{name: "new", ours: sample{1}},
	}
	var said []string
	for _, err := range all.judge(rows) {
		said = append(said, err.Error())
	}
	want := []string{
		"slow is 2.50 times its peer, at most 2.00 is allowed",
		"large is 11.0 MB, at most 10.0 MB is allowed",
		"alone is - times its peer, at most 2.00 is allowed",
		"new has no threshold",
		"lost has a threshold and was not measured",
	}
	if strings.Join(said, "\n") != strings.Join(want, "\n") {
		t.Errorf("judged:\n%s\nwant:\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
}

func TestThresholdsAreRead(t *testing.T) {
	all, err := readLimits("thresholds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range all {
		if (l.Ratio == 0) == (l.Value == 0) {
			t.Errorf("%s: a threshold is either a ratio or a value, not %+v", name, l)
		}
	}
}

func TestCPUTime(t *testing.T) {
	const stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 9 0 0 0 150 25 7 7 20 0 9 0 1 2 3"
	if got, err := parseCPUTime(stat); err != nil || got != 1750*time.Millisecond {
		t.Errorf("read %v, %v; want 1.75s", got, err)
	}
	if got, err := parseCPUTime("42 (a) S 1"); err == nil {
		t.Errorf("read %v from a line that ends too soon", got)
	}
}

func TestMemory(t *testing.T) {
	const smaps = "00400000-7ffd690f6000 ---p 00000000 00:00 0    [rollup]\nRss:              2048 kB\nPss_Anon:            1 kB\nPss:              1536 kB\n"
	if got, err := parseMemory(smaps, "Pss"); err != nil || got != 1.5 {
		t.Errorf("read %v, %v; want 1.5 MB", got, err)
	}
	if got, err := parseMemory(smaps, "Swap"); err == nil {
		t.Errorf("read %v from a field that is not there", got)
	}
}

func TestWrites(t *testing.T) {
	const metrics = `# HELP apiserver_request_total Counter
apiserver_request_total{code="200",resource="pods",scope="namespace",subresource="",verb="LIST"} 90
apiserver_request_total{code="201",resource="pods",scope="resource",subresource="",verb="POST"} 3
apiserver_request_total{code="201",resource="pods",scope="resource",subresource="binding",verb="POST"} 4
apiserver_request_total{code="200",resource="pods",scope="resource",subresource="status",verb="PUT"} 1e+01
apiserver_request_total{code="409",resource="pods",scope="resource",subresource="status",verb="PUT"} 2
apiserver_request_total{code="200",resource="podtemplates",scope="resource",subresource="",verb="PUT"} 70
apiserver_request_total{code="201",resource="events",scope="resource",subresource="",verb="POST"} 6
apiserver_request_terminations_total{code="503",resource="pods",verb="POST"} 80
`
	got := countWrites(metrics)
	if got.pods() != 19 || got["pods/status"] != 12 || got.events() != 6 {
		t.Errorf("counted %v pods (%v status) and %v events, want 19 (12) and 6", got.pods(), got["pods/status"], got.events())
	}
}

func TestGaps(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	pod := runtime.Pod{Containers: []runtime.Container{
		{StartedAt: at(100), FinishedAt: at(150)},
		{StartedAt: at(210), FinishedAt: at(220)},
		{StartedAt: at(250)},
	}}
	got := gaps(pod)
	if len(got) != 2 || got[0] != 60*time.Millisecond || got[1] != 30*time.Millisecond {
		t.Errorf("the gaps are %v, want 60ms and 30ms", got)
	}
}

func TestNumbersAreShort(t *testing.T) {
	for value, want := range map[float64]string{0: "0.00", 0.034: "0.03", 1.234: "1.23", 36.96: "37.0", 123.4: "123", 2164: "2164"} {
		if got := number(value, ""); got != want {
			t.Errorf("%v is written %s, want %s", value, got, want)
		}
	}
	if got := number(math.NaN(), "ms"); got != "-" {
		t.Errorf("no number is written %s", got)
	}
}
