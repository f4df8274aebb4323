package reason

import (
	"regexp"
	"slices"
	"testing"
)

// known are the blanks that a Reason can fill.
var known = []string{"{object}", "{asked}", "{free}", "{count}", "{detail}"}

func TestEveryCodeSaysSomething(t *testing.T) {
	blanks := regexp.MustCompile(`\{[^}]*\}?`)
	codes := Codes()
	if len(codes) == 0 {
		t.Fatal("the table is empty")
	}
	for _, code := range codes {
		line := table[code]
		if line.text == "" {
			t.Errorf("%s has no text", code)
		}
		for _, template := range []string{line.text, line.remedy} {
			for _, blank := range blanks.FindAllString(template, -1) {
				if !slices.Contains(known, blank) {
					t.Errorf("%s has a blank nobody fills: %s", code, blank)
				}
			}
		}
	}
}

func TestReasonFillsItsBlanks(t *testing.T) {
	const code = "Test"
	table[code] = entry{text: "{count} of {object}: {asked}, {free}, {detail}", remedy: "do {object}"}
	defer delete(table, code)
	r := Reason{Code: code, Object: "o", Asked: "a", Free: "f", Detail: "d"}
	if got := r.String(); got != "1 of o: a, f, d" {
		t.Errorf("text: %q", got)
	}
	if got := r.Remedy(); got != "do o" {
		t.Errorf("remedy: %q", got)
	}
	if r.Count = 3; r.Text() != "3 of o: a, f, d" {
		t.Errorf("text with a count: %q", r.Text())
	}
}
