package upstream_test

import (
	"os"
	"regexp"
	"testing"
)

var version = regexp.MustCompile(`(?m)^\s*(?:require )?(\S+)(?: => \S+)? (v\S+)`)

// The suite must be that of the Kubernetes the product is built of.
func TestVersionsAreTheProducts(t *testing.T) {
	ours, product := versions(t, "go.mod"), versions(t, "../../go.mod")
	if product["k8s.io/kubernetes"] == "" || ours["k8s.io/kubernetes"] == "" {
		t.Fatal("no version of k8s.io/kubernetes found")
	}
	for module, want := range product {
		if got, both := ours[module]; both && got != want {
			t.Errorf("%s is %s here and %s in the product", module, got, want)
		}
	}
}

// versions are the modules of a go.mod file with the versions they end up with:
// replace lines come last.
func versions(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, match := range version.FindAllStringSubmatch(string(text), -1) {
		found[match[1]] = match[2]
	}
	return found
}
