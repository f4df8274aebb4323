// Command bench measures muster through its real binary, on real containers: how
// long a Pod takes from apply to Ready, what lies between two init steps, how fast
// the cluster comes up, and what it costs while it idles. Each number stands beside
// a peer taken in the same run on the same machine, mostly the bare container
// runtime doing the same work with no control plane, since on a shared machine
// only the ratio of the two means anything.
//
// It owns one private cluster and one private containerd, and removes both. It
// knows the cluster by its API and its runtime's socket, and never looks inside.
// thresholds.yaml says what is too much.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

// options are what a person may choose.
type options struct {
	binary     string
	images     string
	thresholds string
	pods       int
	starts     int
	idle       time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "bin/muster", "the muster to measure")
	flag.StringVar(&o.images, "image", "bin/images/busybox_1.36.tar", "archive of the image that the Pods run")
	flag.StringVar(&o.thresholds, "thresholds", "test/bench/thresholds.yaml", "what is too much")
	flag.IntVar(&o.pods, "pods", 11, "how many Pods of each shape to measure")
	flag.IntVar(&o.starts, "starts", 5, "how many starts of each kind to measure")
	flag.DurationVar(&o.idle, "idle", time.Minute, "how long to idle, and then to watch the idling")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	summary, err := bench(ctx, o, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		fmt.Println("bench: FAILED")
		os.Exit(1)
	}
	fmt.Println("bench: passed:", summary)
}

// bench measures everything and prints the table. It fails when a measure is over
// its threshold.
func bench(ctx context.Context, o options, out io.Writer) (summary string, err error) {
	limits, err := readLimits(o.thresholds)
	if err != nil {
		return "", err
	}
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	slog.SetDefault(quiet)
	klog.SetSlogLogger(quiet)
	rows, err := measure(ctx, o)
	if err != nil {
		return "", err
	}
	broken := limits.judge(rows)
	printTable(out, rows)
	return fmt.Sprintf("%d measures within %s", len(rows), o.thresholds), errors.Join(broken...)
}

// measure takes the measures in the order that disturbs them least: starts, then
// the cluster at rest, then Pods.
func measure(ctx context.Context, o options) (rows []row, err error) {
	dir, err := os.MkdirTemp("", "muster-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.binary, err = filepath.Abs(o.binary); err != nil {
		return nil, err
	}
	size, err := binarySize(o.binary)
	if err != nil {
		return nil, err
	}
	starts, err := measureStarts(ctx, o, dir)
	if err != nil {
		return nil, fmt.Errorf("measuring starts: %w", err)
	}
	running, err := measureRunning(ctx, o, filepath.Join(dir, "pods"))
	if err != nil {
		return nil, err
	}
	rows = append(rows, size)
	rows = append(rows, starts...)
	return append(rows, running...), nil
}

// measureRunning takes the measures of a cluster that is up.
func measureRunning(ctx context.Context, o options, dir string) (rows []row, err error) {
	c, err := newCluster(o.binary, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.purge()) }()
	if err := c.up(ctx); err != nil {
		return nil, err
	}
	if err := c.run(ctx, "images", "import", "--data-dir", c.dir, o.images); err != nil {
		return nil, err
	}
	idle, err := measureIdle(ctx, c, o.idle)
	if err != nil {
		return nil, fmt.Errorf("measuring the cluster at rest: %w", err)
	}
	pods, err := measurePods(ctx, c, o.pods)
	if err != nil {
		return nil, fmt.Errorf("measuring Pods: %w", err)
	}
	return append(idle, pods...), nil
}
