// Command run holds muster against Kubernetes' own end-to-end suite: it starts a
// one-machine cluster, runs the listed specs on it and prints one table. It owns
// the cluster it starts and the reading of the suite's report; what the specs do,
// it never judges.
//
// The specs to run are a file of lines "source file | spec". A second file of
// such lines, with a third field that says why, names those that cannot pass
// yet: only a failure that is not among them makes the exit code 1.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

type options struct {
	list, known   string // files
	focus, skip   string // regular expressions over "source file | spec"
	bin           string // folder of muster, kubectl, e2e.test, ginkgo and the images
	report        string // folder of reports and logs
	processes     int
	kubeconfig    string // a running cluster's, instead of an own one
	podCIDR       string // of the own cluster
	serialAllowed bool
}

func main() {
	var o options
	flag.StringVar(&o.list, "list", "in-scope.txt", "file that lists the specs to run")
	flag.StringVar(&o.known, "known", "known.txt", "file that lists the specs that cannot pass yet, and why")
	flag.StringVar(&o.focus, "focus", "", "run only the lines that match this regular expression")
	flag.StringVar(&o.skip, "skip", "", "leave out the lines that match this regular expression")
	flag.StringVar(&o.bin, "bin", "../../bin/upstream", "folder of muster, kubectl and upstream's programs")
	flag.StringVar(&o.report, "report", "../../bin/upstream/report", "folder for reports and logs")
	flag.IntVar(&o.processes, "processes", 4, "specs to run at a time, but for serial ones")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "run against this cluster instead of starting one")
	flag.StringVar(&o.podCIDR, "pod-cidr", "10.242.0.0/24", "Pod network of the cluster it starts")
	flag.BoolVar(&o.serialAllowed, "serial", true, "run serial specs too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	passed, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "upstream: FAILED:", err)
		os.Exit(1)
	}
	if !passed {
		os.Exit(1)
	}
}

// run says whether nothing failed that is not known to.
func run(ctx context.Context, o options) (bool, error) {
	began := time.Now()
	specs, err := choose(o)
	if err != nil {
		return false, err
	}
	if err := os.MkdirAll(o.report, 0o755); err != nil {
		return false, fmt.Errorf("making the report folder: %w", err)
	}
	if o.kubeconfig == "" {
		c, err := startCluster(ctx, o)
		if err != nil {
			return false, err
		}
		defer c.purge()
		o.kubeconfig = c.kubeconfig()
	}
	results := map[string]result{}
	for _, serial := range []bool{false, true} {
		if err := runSpecs(ctx, o, specs, serial, results); err != nil {
			return false, err
		}
	}
	known, err := readSpecs(o.known)
	if err != nil {
		return false, err
	}
	return summarise(os.Stdout, specs, known, results, time.Since(began)), nil
}

// choose reads the list and keeps what was asked for.
func choose(o options) ([]spec, error) {
	focus, err := regexp.Compile(o.focus)
	if err != nil {
		return nil, fmt.Errorf("reading -focus: %w", err)
	}
	skip, err := regexp.Compile(o.skip)
	if err != nil {
		return nil, fmt.Errorf("reading -skip: %w", err)
	}
	all, err := readSpecs(o.list)
	if err != nil {
		return nil, err
	}
	var chosen []spec
	for _, s := range all {
		line := s.file + " | " + s.name
		if focus.MatchString(line) && (o.skip == "" || !skip.MatchString(line)) && (o.serialAllowed || !s.serial()) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("choosing specs: none of %d in %s matches", len(all), o.list)
	}
	return chosen, nil
}
