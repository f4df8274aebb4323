// Package reason is the one vocabulary of "why": every "no", every wait and
// every hold in muster is a Reason, a value with a code from the table in this
// package and the numbers that belong to it. Events, conditions, the coverage
// table, JSON and metrics are renderings of the same value.
//
// The package owns the codes, their texts and their remedies. It never decides
// anything and never looks at the cluster.
package reason

import (
	"fmt"
	"strings"
)

// Code names one kind of reason. Codes are stable: they appear in JSON and in
// metric labels. Where Kubernetes has a word for the thing, the code is that word.
type Code string

// Reason is one answer to "why", with the numbers that make it checkable.
type Reason struct {
	Code Code `json:"code"`
	// Object is what the reason is about: a taint, a label, a resource, an image.
	Object string `json:"object,omitempty"`
	// Asked and Free are quantities in Kubernetes' notation: what was asked for
	// and what there was.
	Asked string `json:"asked,omitempty"`
	Free  string `json:"free,omitempty"`
	// Count is how many objects the reason stands for where it is an aggregate
	// (nodes, containers); zero means one.
	Count int `json:"count,omitempty"`
	// Detail is what only the world could say, such as a registry's own error.
	Detail string `json:"detail,omitempty"`
}

// entry is one line of the table: what a code says and what to do about it.
// {object}, {asked}, {free}, {count} and {detail} are filled from the Reason.
type entry struct {
	text   string
	remedy string
}

// Text says the reason in one sentence, in Kubernetes' words where it has them.
func (r Reason) Text() string { return r.fill(table[r.Code].text) }

// Remedy says what a person can do about it; empty where nothing need be done.
func (r Reason) Remedy() string { return r.fill(table[r.Code].remedy) }

// String is Text, so that a Reason prints as a sentence.
func (r Reason) String() string { return r.Text() }

func (r Reason) fill(template string) string {
	if template == "" {
		return ""
	}
	count := r.Count
	if count == 0 {
		count = 1
	}
	return strings.NewReplacer(
		"{object}", r.Object,
		"{asked}", r.Asked,
		"{free}", r.Free,
		"{count}", fmt.Sprint(count),
		"{detail}", r.Detail,
	).Replace(template)
}

// Codes lists every code of the table, for tests and documentation.
func Codes() []Code {
	codes := make([]Code, 0, len(table))
	for code := range table {
		codes = append(codes, code)
	}
	return codes
}

// Known says that the table has a line for code.
func Known(code Code) bool {
	_, ok := table[code]
	return ok
}
