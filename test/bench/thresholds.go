package main

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"sigs.k8s.io/yaml"
)

// limit is what a measure's median may be at most: a ratio to the peer's median
// or, where there is no peer that the machine slows down alike, a value in the
// measure's unit. Zero means none.
type limit struct {
	Ratio float64 `json:"ratio,omitempty"`
	Value float64 `json:"value,omitempty"`
}

// limits are the thresholds, by the measure's name.
type limits map[string]limit

func readLimits(file string) (limits, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading thresholds: %w", err)
	}
	var all limits
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		return nil, fmt.Errorf("reading thresholds in %s: %w", file, err)
	}
	return all, nil
}

// judge notes each row's limit in it and returns what breaks one. A measure
// without a threshold and a threshold without a measure are errors too: else a
// renamed one would pass for ever.
func (all limits) judge(rows []row) (broken []error) {
	measured := map[string]bool{}
	for i := range rows {
		r := &rows[i]
		measured[r.name] = true
		r.limit = all[r.name]
		if err := r.limit.check(*r); err != nil {
			broken = append(broken, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !measured[name] {
			broken = append(broken, fmt.Errorf("%s has a threshold and was not measured", name))
		}
	}
	return broken
}

// check compares so that what is not a number fails.
func (l limit) check(r row) error {
	switch {
	case l.Ratio == 0 && l.Value == 0:
		return fmt.Errorf("%s has no threshold", r.name)
	case l.Ratio != 0 && !(r.ratio() <= l.Ratio):
		return fmt.Errorf("%s is %s times its peer, at most %s is allowed", r.name, number(r.ratio(), ""), number(l.Ratio, ""))
	case l.Value != 0 && !(r.ours.median() <= l.Value):
		return fmt.Errorf("%s is %s, at most %s is allowed", r.name, number(r.ours.median(), r.unit), number(l.Value, r.unit))
	}
	return nil
}

func (l limit) print(unit string) string {
	switch {
	case l.Ratio != 0:
		return "×" + number(l.Ratio, "")
	case l.Value != 0:
		return number(l.Value, unit)
	}
	return "-"
}
