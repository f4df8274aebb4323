package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
)

// writes are how often the API server was asked to change an object, by resource:
// "pods", "pods/status", "events".
type writes map[string]float64

// settledWrites are the writes once events, which are sent late, have all been.
func settledWrites(ctx context.Context, client kubernetes.Interface) (writes, error) {
	const quiet = 2 * time.Second
	for last := (writes{}); ; {
		text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading the API server's metrics: %w", err)
		}
		now := countWrites(string(text))
		if now.events() == last.events() && now.pods() == last.pods() {
			return now, nil
		}
		last = now
		if err := pass(ctx, quiet); err != nil {
			return nil, err
		}
	}
}

var requestLine = regexp.MustCompile(`^apiserver_request_total\{(.*)\} ([0-9.e+]+)$`)

// countWrites sums the API server's own count of requests.
func countWrites(metrics string) writes {
	all := writes{}
	for line := range strings.Lines(metrics) {
		found := requestLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if found == nil {
			continue
		}
		count, err := strconv.ParseFloat(found[2], 64)
		labels := parseLabels(found[1])
		if err != nil || !changes[labels["verb"]] {
			continue
		}
		resource := labels["resource"]
		if labels["subresource"] != "" {
			resource += "/" + labels["subresource"]
		}
		all[resource] += count
	}
	return all
}

var changes = map[string]bool{"POST": true, "PUT": true, "PATCH": true, "APPLY": true, "DELETE": true, "DELETECOLLECTION": true}

var labelPair = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)

func parseLabels(text string) map[string]string {
	labels := map[string]string{}
	for _, pair := range labelPair.FindAllStringSubmatch(text, -1) {
		labels[pair[1]] = pair[2]
	}
	return labels
}

// pods is the writes to Pods and all below them.
func (w writes) pods() (sum float64) {
	for resource, count := range w {
		if resource == "pods" || strings.HasPrefix(resource, "pods/") {
			sum += count
		}
	}
	return sum
}

func (w writes) events() float64 { return w["events"] }

// writesPerPod is what one Pod's whole life costs the API server.
func writesPerPod(before, after writes, n int) []row {
	per := func(count func(writes) float64) sample { return sample{(count(after) - count(before)) / float64(n)} }
	status := func(w writes) float64 { return w["pods/status"] }
	return []row{
		{name: "pod-writes", what: "writes of a Pod's life, made to deleted", unit: "writes", ours: per(writes.pods)},
		{name: "pod-status", what: "of these its status", unit: "writes", ours: per(status)},
		{name: "pod-events", what: "events of a Pod's life", unit: "writes", ours: per(writes.events)},
	}
}
