package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"

	"muster.dev/muster/internal/coverage"
)

// namedNodes is how many nodes with the same hole are named before the rest is
// only counted; wide names all.
const namedNodes = 5

// printCoverage writes the report for people: one line per pool and daemon, then
// the holes, those with the same reason together.
func printCoverage(streams genericiooptions.IOStreams, report coverage.Report, wide bool) error {
	if len(report.Lines) == 0 {
		_, err := fmt.Fprintln(streams.ErrOut, "No DaemonSets or no nodes found.")
		return err
	}
	table := printers.GetNewTabWriter(streams.Out)
	fmt.Fprintln(table, "POOL\tDAEMON\tNODES\tWANTED\tREADY\tHOLES")
	for _, line := range report.Lines {
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\n", line.Pool, daemonName(line), line.Nodes, line.Wanted, line.Ready, len(line.Holes))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	for _, line := range report.Lines {
		if err := printHoles(streams.Out, line, wide); err != nil {
			return fmt.Errorf("writing the holes: %w", err)
		}
	}
	return nil
}

func daemonName(line coverage.Line) string { return line.Namespace + "/" + line.Daemon }

// sameHole are nodes that lack a daemon for the same reasons.
type sameHole struct {
	nodes []string
	whys  []coverage.Why
}

func printHoles(out io.Writer, line coverage.Line, wide bool) error {
	for _, hole := range grouped(line.Holes, wide) {
		text := fmt.Sprintf("\n%s is missing on %s (pool %s)\n", daemonName(line), nodeNames(hole.nodes, wide), line.Pool)
		for _, why := range hole.whys {
			text += "  " + why.Text + "\n"
			if why.Remedy != "" {
				text += "    remedy: " + why.Remedy + "\n"
			}
		}
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
	}
	return nil
}

// grouped puts holes with the same reasons together, in the order of their first
// nodes. Wide also says which Pod each node has, so there every hole is its own.
func grouped(holes []coverage.Hole, wide bool) []sameHole {
	var groups []sameHole
	for _, hole := range holes {
		node := hole.Node
		if wide && hole.Pod != "" {
			node += " (Pod " + hole.Pod + ", revision " + hole.Revision + ")"
		}
		at := slices.IndexFunc(groups, func(g sameHole) bool { return slices.Equal(g.whys, hole.Reasons) })
		if at < 0 {
			groups = append(groups, sameHole{whys: hole.Reasons})
			at = len(groups) - 1
		}
		groups[at].nodes = append(groups[at].nodes, node)
	}
	return groups
}

func nodeNames(nodes []string, all bool) string {
	if len(nodes) == 1 {
		return nodes[0]
	}
	named, more := nodes, ""
	if !all && len(nodes) > namedNodes {
		named, more = nodes[:namedNodes], fmt.Sprintf(" and %d more", len(nodes)-namedNodes)
	}
	return strconv.Itoa(len(nodes)) + " nodes: " + strings.Join(named, ", ") + more
}
