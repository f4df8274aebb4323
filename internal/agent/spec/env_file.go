package spec

import (
	"errors"
	"fmt"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// fileKey reads a variable from a file that an earlier container left in a volume.
func (e *environment) fileKey(ref *v1.FileKeySelector) (string, bool, error) {
	content, err := e.in.Lookup.File(ref.VolumeName, ref.Path)
	optional := ptr.Deref(ref.Optional, false)
	if errors.Is(err, os.ErrNotExist) && optional {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("couldn't parse env file: %w", err)
	}
	value, found := envFileKey(string(content), ref.Key)
	if !found && !optional {
		return "", false, fmt.Errorf("environment variable key %q not found in file %q", ref.Key, ref.Path)
	}
	return value, found, nil
}

// envFileKey finds KEY='VALUE' or KEY=VALUE in a file of such lines; the last one
// of a name counts.
func envFileKey(content, key string) (value string, found bool) {
	for line := range strings.Lines(content) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || strings.HasPrefix(name, "#") || strings.TrimSpace(name) != key {
			continue
		}
		value, found = unquote(strings.TrimSpace(rest)), true
	}
	return value, found
}

func unquote(text string) string {
	if len(text) >= 2 && (text[0] == '\'' || text[0] == '"') && text[len(text)-1] == text[0] {
		return text[1 : len(text)-1]
	}
	return text
}
