package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	megabyte = 1 << 20
	// tick is the unit of a process's CPU time in /proc, 1/100 s on every Linux
	// that Go runs on.
	tick = 10 * time.Millisecond
)

// measureIdle lets the cluster rest for a while, then watches it rest for as long.
func measureIdle(ctx context.Context, c *cluster, rest time.Duration) ([]row, error) {
	muster, err := c.pid()
	if err != nil {
		return nil, err
	}
	containerd, err := c.containerdPID()
	if err != nil {
		return nil, err
	}
	if err := pass(ctx, rest); err != nil {
		return nil, err
	}
	before, err := cpuTime(muster, containerd)
	if err != nil {
		return nil, err
	}
	if err := pass(ctx, rest); err != nil {
		return nil, err
	}
	after, err := cpuTime(muster, containerd)
	if err != nil {
		return nil, err
	}
	share := func(i int) float64 { return 100 * float64(after[i]-before[i]) / float64(rest) }
	cpu := row{name: "idle-cpu", what: "CPU at rest, of one core", unit: "%", peer: "containerd", ours: sample{share(0)}, theirs: sample{share(1)}}
	rows := []row{cpu}
	for _, kind := range []struct{ name, what, field string }{
		{"idle-rss", "memory at rest, RSS", "Rss"},
		{"idle-pss", "memory at rest, PSS", "Pss"},
		{"idle-heap", "memory at rest, of its own (anonymous)", "Anonymous"},
	} {
		ours, err1 := memory(muster, kind.field)
		theirs, err2 := memory(containerd, kind.field)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		rows = append(rows, row{name: kind.name, what: kind.what, unit: "MB", peer: "containerd", ours: sample{ours}, theirs: sample{theirs}})
	}
	return rows, nil
}

// pass lets time pass: the measure is of what happens while nothing is asked.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// cpuTime is what each process has used so far.
func cpuTime(pids ...int) ([]time.Duration, error) {
	var used []time.Duration
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return nil, err
		}
		one, err := parseCPUTime(string(text))
		if err != nil {
			return nil, err
		}
		used = append(used, one)
	}
	return used, nil
}

// parseCPUTime adds utime and stime of a /proc/PID/stat, the 14th and 15th field.
// The second, the command, is in parentheses and may hold anything.
func parseCPUTime(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("reading CPU time: %q is not a process's stat", stat)
	}
	var sum time.Duration
	for _, field := range fields[11:13] {
		ticks, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("reading CPU time: %w", err)
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}

// memory is one field of the process's smaps_rollup, in MB.
func memory(pid int, field string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	return parseMemory(string(text), field)
}

func parseMemory(smaps, field string) (float64, error) {
	for line := range strings.Lines(smaps) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == field+":" {
			kilobytes, err := strconv.ParseFloat(words[1], 64)
			return kilobytes / 1024, err
		}
	}
	return 0, fmt.Errorf("reading memory: there is no field %s", field)
}

func binarySize(path string) (row, error) {
	info, err := os.Stat(path)
	if err != nil {
		return row{}, err
	}
	return row{name: "binary", what: "size of the binary", unit: "MB", ours: sample{float64(info.Size()) / megabyte}}, nil
}
