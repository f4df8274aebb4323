package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// count is one line of the table.
type count struct{ passed, failed, known, skipped int }

func (c *count) add(other count) {
	c.passed += other.passed
	c.failed += other.failed
	c.known += other.known
	c.skipped += other.skipped
}

// summarise prints the table by source file, each spec that did not pass with
// its reason, and one line that sums it up. It says whether nothing failed that
// is not known to.
func summarise(out io.Writer, specs, known []spec, results map[string]result, took time.Duration) bool {
	why := map[string]string{}
	for _, k := range known {
		why[k.name] = k.why
	}
	files, counts := []string{}, map[string]*count{}
	var total count
	for _, s := range specs {
		if counts[s.file] == nil {
			files, counts[s.file] = append(files, s.file), &count{}
		}
		one := judge(out, s, why, results)
		counts[s.file].add(one)
		total.add(one)
	}
	slices.Sort(files)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nFILE\tPASSED\tFAILED\tKNOWN\tSKIPPED")
	for _, file := range files {
		c := counts[file]
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\n", file, c.passed, c.failed, c.known, c.skipped)
	}
	table.Flush()
	verdict := "passed"
	if total.failed > 0 {
		verdict = "FAILED"
	}
	fmt.Fprintf(out, "upstream: %s: of %d specs %d passed, %d failed, %d are known not to pass yet, %d skipped, in %s\n",
		verdict, len(specs), total.passed, total.failed, total.known, total.skipped, took.Round(time.Second))
	return total.failed == 0
}

// judge counts one spec and says what there is to say of it.
func judge(out io.Writer, s spec, why map[string]string, results map[string]result) count {
	reason, isKnown := why[s.name]
	r, ran := results[s.name]
	switch {
	case !ran:
		fmt.Fprintf(out, "FAILED   %s\n         not in the suite's report\n", s.name)
		return count{failed: 1}
	case r.status == "passed":
		if isKnown {
			fmt.Fprintf(out, "PASSED   %s\n         known not to pass, but it did: %s\n", s.name, reason)
		}
		return count{passed: 1}
	case r.status == "skipped":
		fmt.Fprintf(out, "SKIPPED  %s\n         %s\n", s.name, firstLine(r.message))
		return count{skipped: 1}
	case isKnown:
		fmt.Fprintf(out, "KNOWN    %s\n         %s\n", s.name, reason)
		return count{known: 1}
	}
	fmt.Fprintf(out, "FAILED   %s (%s)\n         %s\n", s.name, r.took.Round(time.Second), firstLine(r.message))
	return count{failed: 1}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
