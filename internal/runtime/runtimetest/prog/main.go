// Command prog is all that a test image holds: a static program that does what
// its arguments say, in order, and as /pause holds a sandbox.
//
//	print TEXT     write a line to standard output
//	complain TEXT  write a line to standard error
//	write FILE TEXT
//	sleep DURATION
//	wait CODE      write "waiting", and at SIGTERM exit with CODE
//	stubborn       write "waiting", and go on whatever SIGTERM says
//	eat MEGABYTES  hold memory
//	child ARG...   run itself with the remaining arguments, report their end, and
//	               end a second later with 0
//	exit CODE
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"wait", "0"}
	}
	for len(args) > 0 {
		args = step(args)
	}
}

// eaten keeps what was eaten alive.
var eaten [][]byte

// step does the first verb and returns what is left to do.
func step(args []string) []string {
	verb, rest := args[0], args[1:]
	switch verb {
	case "print":
		fmt.Println(rest[0])
	case "complain":
		fmt.Fprintln(os.Stderr, rest[0])
	case "write":
		must(os.WriteFile(rest[0], []byte(rest[1]), 0o644))
		rest = rest[1:]
	case "sleep":
		d, err := time.ParseDuration(rest[0])
		must(err)
		time.Sleep(d)
	case "wait":
		await(syscall.SIGTERM)
		os.Exit(number(rest[0]))
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		await(syscall.SIGUSR1)
	case "eat":
		block := make([]byte, number(rest[0])<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		eaten = append(eaten, block)
	case "child":
		fmt.Println("child:", exec.Command("/proc/self/exe", rest...).Run())
		time.Sleep(time.Second)
		return nil
	case "exit":
		os.Exit(number(rest[0]))
	default:
		must(fmt.Errorf("unknown verb %q", verb))
	}
	return rest[1:]
}

// await says when it is ready for the signal: one that comes before ends a process
// as it likes.
func await(s os.Signal) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, s)
	fmt.Println("waiting")
	<-signals
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	must(err)
	return n
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "prog:", err)
		os.Exit(125)
	}
}
