package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// As ginkgo writes it: the suite's own nodes and every spec it left out are in
// the report too.
const report = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="Kubernetes e2e suite">
<testcase name="[SynchronizedBeforeSuite]" status="passed" time="1"></testcase>
<testcase name="[It] runs &lt;a&gt; Pod [Conformance] [sig-node, Conformance]" status="passed" time="2.5"></testcase>
<testcase name="[It] resizes a Pod [Conformance] [sig-node, Conformance]" status="failed" time="3"><failure message="no such&#xA;field" type="failed">…</failure></testcase>
<testcase name="[It] hangs [Conformance] [sig-node, Conformance]" status="timedout" time="9"><failure message="too slow" type="timedout">…</failure></testcase>
<testcase name="[It] needs two nodes [Conformance] [sig-node, Conformance]" status="skipped" time="0.1"><skipped message="skipped - one node only"></skipped></testcase>
<testcase name="[It] was not asked for [sig-node]" status="skipped" time="0"><skipped message="skipped"></skipped></testcase>
</testsuite></testsuites>`

func TestTheReportBecomesATable(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	results := map[string]result{}
	if err := readReport(write("report.xml", report), results); err != nil {
		t.Fatal(err)
	}
	specs, err := readSpecs(write("list", "# of files and specs\na.go | runs <a> Pod [Conformance]\na.go | resizes a Pod [Conformance]\n"+
		"b.go | hangs [Conformance]\nb.go | needs two nodes [Conformance]\nb.go | was not asked for\n"))
	if err != nil {
		t.Fatal(err)
	}
	known, err := readSpecs(write("known", "a.go | resizes a Pod [Conformance] | Pods cannot be resized yet\n"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if summarise(&out, specs, known, results, time.Minute) {
		t.Error("a run with unknown failures passed")
	}
	for _, line := range []string{"KNOWN    resizes a Pod [Conformance]\n         Pods cannot be resized yet",
		"FAILED   hangs [Conformance] (9s)\n         too slow", "SKIPPED  needs two nodes [Conformance]\n         one node only",
		"FAILED   was not asked for\n         not in the suite's report", "a.go  1       0       1      0", "b.go  0       2       0      1",
		"upstream: FAILED: of 5 specs 1 passed, 2 failed, 1 are known not to pass yet, 1 skipped, in 1m0s"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("the table lacks %q", line)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
	if !summarise(&out, specs[:2], known, results, time.Minute) {
		t.Error("a run whose only failure is known failed")
	}
}
