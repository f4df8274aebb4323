package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// sample is what was measured, in the row's unit.
type sample []float64

// quantile is the smallest value that at least the share q of the sample does not
// exceed; not a number for an empty sample.
func (s sample) quantile(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func (s sample) median() float64 { return s.quantile(0.5) }

// row is one measure of muster, beside the peer's.
type row struct {
	name   string // as in the thresholds
	what   string
	unit   string // empty: milliseconds
	ours   sample
	peer   string // empty: there is none
	theirs sample
	limit  limit // set by the thresholds
}

func (r *row) took(d time.Duration)     { r.ours = append(r.ours, milliseconds(d)) }
func (r *row) peerTook(d time.Duration) { r.theirs = append(r.theirs, milliseconds(d)) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ratio is muster's median over the peer's.
func (r row) ratio() float64 { return r.ours.median() / r.theirs.median() }

func printTable(out io.Writer, rows []row) {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "MEASURE\tWHAT\tN\tMEDIAN\tP90\tPEER\tMEDIAN\tP90\tRATIO\tAT MOST")
	for _, r := range rows {
		unit := r.unit
		if unit == "" {
			unit = "ms"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.name, r.what, len(r.ours),
			number(r.ours.median(), unit), number(r.ours.quantile(0.9), unit), orDash(r.peer),
			number(r.theirs.median(), unit), number(r.theirs.quantile(0.9), unit), number(r.ratio(), ""), r.limit.print(unit))
	}
	table.Flush()
}

// number is a value with some three digits that mean something.
func number(value float64, unit string) string {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return "-"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(max(math.Abs(value), 0.1)))))
	text := fmt.Sprintf("%.*f", min(digits, 2), value)
	if unit != "" {
		text += " " + unit
	}
	return text
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
