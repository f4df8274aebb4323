package spec

import "testing"

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "1", "EMPTY": "", "NESTED": "$(A)"}
	lookup := func(name string) (string, bool) { value, ok := values[name]; return value, ok }
	for in, want := range map[string]string{
		"":              "",
		"plain":         "plain",
		"$(A)":          "1",
		"x$(A)y$(A)":    "x1y1",
		"$(EMPTY)|":     "|",
		"$(UNKNOWN)":    "$(UNKNOWN)",
		"$$(A)":         "$(A)",
		"$$$(A)":        "$1",
		"$$$$(A)":       "$$(A)",
		"$A ${A} $":     "$A ${A} $",
		"$(A":           "$(A",
		"$(":            "$(",
		"$()":           "$()",
		"$(NESTED)":     "$(A)",
		"$($(A))":       "$($(A))",
		"ends with $$":  "ends with $",
		"日$(A)本":        "日1本",
		"$(A)$$(A)$(A)": "1$(A)1",
	} {
		if got := Expand(in, lookup); got != want {
			t.Errorf("Expand(%q) = %q, want %q", in, got, want)
		}
	}
}
