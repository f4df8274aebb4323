package fake_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
	"muster.dev/muster/internal/runtime/fake"
	"muster.dev/muster/internal/runtime/runtimetest"
)

func TestSuite(t *testing.T) {
	runtimetest.Suite(t, func(testing.TB) runtimetest.Subject {
		r := fake.New(fake.Options{Logs: true, Script: fake.Script{
			Container: func(s fake.Start) fake.Run { return runOf(s.Config.Args) },
			Exec:      func(_ *cri.ContainerConfig, command []string) fake.Exec { return execOf(command[1:]) },
			Pull: func(name string, _ int) fake.Pull {
				if strings.HasPrefix(name, "127.0.0.1:1/") {
					return fake.Pull{Failure: runtime.ErrRegistryUnavailable}
				}
				return fake.Pull{Failure: errors.New("unexpected pull of " + name)}
			},
		}})
		uid := int64(1234)
		r.AddImage(runtimetest.ProgImage, fake.Pull{})
		r.AddImage(runtimetest.UserImage, fake.Pull{UID: &uid})
		r.AddImage(runtimetest.NamedImage, fake.Pull{Username: "nobody"})
		return runtimetest.Subject{Runtime: r, Reconnect: func(testing.TB) runtime.Runtime { return r }}
	})
}

// runOf is what the test image's program does upon its arguments.
func runOf(args []string) fake.Run {
	run := fake.Run{MilliCPU: 1}
	for ; len(args) > 1; args = args[2:] {
		switch args[0] {
		case "print":
			run.Output = append(run.Output, args[1])
		case "sleep":
			run.After, _ = time.ParseDuration(args[1])
		case "eat":
			run.MemoryBytes = uint64(number(args[1])) << 20
		case "wait":
			run.StopCode = number(args[1])
			run.Output = append(run.Output, "waiting")
		case "exit":
			run.Ends, run.ExitCode = true, number(args[1])
		}
	}
	if len(args) == 1 && args[0] == "stubborn" {
		run.Stubborn = true
		run.Output = append(run.Output, "waiting")
	}
	return run
}

func execOf(args []string) fake.Exec {
	var exec fake.Exec
	for ; len(args) > 1; args = args[2:] {
		switch args[0] {
		case "print":
			exec.Result.Stdout = append(exec.Result.Stdout, args[1]+"\n"...)
		case "complain":
			exec.Result.Stderr = append(exec.Result.Stderr, args[1]+"\n"...)
		case "sleep":
			exec.Takes, _ = time.ParseDuration(args[1])
		case "exit":
			exec.Result.ExitCode = number(args[1])
		}
	}
	return exec
}

func number(text string) int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		panic(err)
	}
	return int32(n)
}
