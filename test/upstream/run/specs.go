package main

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// spec is one line of a list.
type spec struct {
	file, name string
	why        string // in the list of those that cannot pass yet
}

func (s spec) serial() bool { return strings.Contains(s.name, "[Serial]") }

// result is what the suite's report says of a spec.
type result struct {
	status  string // passed, failed, skipped
	message string
	took    time.Duration
}

func readSpecs(file string) ([]spec, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the list of specs: %w", err)
	}
	var list []spec
	for _, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(line, " | ", 3)
		if len(fields) < 2 {
			return nil, fmt.Errorf("reading %s: %q is not \"file | spec\"", file, line)
		}
		s := spec{file: fields[0], name: fields[1]}
		if len(fields) == 3 {
			s.why = fields[2]
		}
		list = append(list, s)
	}
	return list, nil
}

// runSpecs runs the serial specs or the others and adds what became of them.
func runSpecs(ctx context.Context, o options, all []spec, serial bool, results map[string]result) error {
	var names []string
	for _, s := range all {
		if s.serial() == serial {
			names = append(names, regexp.QuoteMeta(s.name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	kind, processes := "parallel", o.processes
	if serial {
		kind, processes = "serial", 1
	}
	fmt.Fprintf(os.Stderr, "upstream: running %d %s specs, %d at a time\n", len(names), kind, processes)
	report, err := filepath.Abs(filepath.Join(o.report, kind+".xml"))
	if err != nil {
		return fmt.Errorf("finding the report folder: %w", err)
	}
	if err := os.Remove(report); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the last report: %w", err)
	}
	if err := suite(ctx, o, kind, processes, report, "("+strings.Join(names, "|")+")$"); err != nil {
		return err
	}
	return readReport(report, results)
}

// suite runs the suite. That specs failed is no error: the report says which.
func suite(ctx context.Context, o options, kind string, processes int, report, focus string) error {
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return fmt.Errorf("finding the programs: %w", err)
	}
	kubeconfig, err := filepath.Abs(o.kubeconfig)
	if err != nil {
		return fmt.Errorf("finding the kubeconfig: %w", err)
	}
	log, err := os.Create(filepath.Join(o.report, kind+".log"))
	if err != nil {
		return fmt.Errorf("making the log: %w", err)
	}
	defer log.Close()
	command := exec.CommandContext(ctx, filepath.Join(bin, "ginkgo"), "--no-color", "--procs="+strconv.Itoa(processes),
		"--timeout=3h", "--focus="+focus, "--output-dir="+filepath.Dir(report), "--junit-report="+filepath.Base(report),
		filepath.Join(bin, "e2e.test"), "--", "--provider=local", "--num-nodes=1", "--kubeconfig="+kubeconfig,
		"--kubectl-path="+filepath.Join(bin, "kubectl"))
	command.Stdout, command.Stderr = log, log
	// A group of its own, of which nothing is left in the end. It is asked first, so
	// that the suite removes what its specs made.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGINT) }
	command.WaitDelay = time.Minute
	err = command.Run()
	if command.Process != nil {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // fails where all have ended, as they should
	}
	var ended *exec.ExitError
	if err == nil || errors.As(err, &ended) && ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("running the suite (see %s): %w", log.Name(), err)
}

// readReport reads a JUnit report as ginkgo writes it.
func readReport(file string, results map[string]result) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the suite's report: %w", err)
	}
	var report struct {
		Cases []struct {
			Name    string  `xml:"name,attr"`
			Status  string  `xml:"status,attr"`
			Seconds float64 `xml:"time,attr"`
			Failure struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
			Skipped struct {
				Message string `xml:"message,attr"`
			} `xml:"skipped"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		return fmt.Errorf("reading the suite's report %s: %w", file, err)
	}
	for _, c := range report.Cases {
		name, isSpec := strings.CutPrefix(c.Name, "[It] ")
		reason, skipped := strings.CutPrefix(c.Skipped.Message, "skipped - ")
		if !isSpec || c.Status == "pending" || c.Status == "skipped" && !skipped {
			continue // a spec that was not asked for was skipped without a reason
		}
		if labels := strings.LastIndex(name, " ["); labels > 0 {
			name = name[:labels] // ginkgo adds the list of labels to the name
		}
		status := c.Status
		if status != "passed" && status != "skipped" {
			status = "failed"
		}
		results[name] = result{status, c.Failure.Message + reason, time.Duration(c.Seconds * float64(time.Second))}
	}
	return nil
}
