package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// version is muster's own version; the build sets it.
var version = "devel"

// Main runs the program with the process's arguments and returns its exit code.
// A program called kubectl (a link to muster) is kubectl.
func Main(args []string) int {
	if filepath.Base(args[0]) == "kubectl" {
		return kubectl(args[1:])
	}
	// kubectl is dispatched before cobra sees the line: its flags, its help and its
	// exit codes are its own.
	if len(args) > 1 && args[1] == "kubectl" {
		return kubectl(args[2:])
	}
	useLocalCluster(args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	root := newRoot(streams)
	root.SetArgs(args[1:])
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(streams.ErrOut, "error: %v\n", err)
		return 1
	}
	return 0
}

func newRoot(streams genericiooptions.IOStreams) *cobra.Command {
	root := &cobra.Command{
		Use:   "muster",
		Short: "Keeps every node covered: one Pod of each daemon on every eligible node, for ever",
		Long: `muster keeps every node covered. Describe a node daemon once, as a Kubernetes
DaemonSet; muster keeps exactly one Pod of it on every eligible node, and can
always say which node lacks which daemon and why.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
	}
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.AddCommand(
		newUpCommand(streams),
		newDownCommand(streams),
		NewCoverageCommand(streams),
		newImagesCommand(streams),
		newKubectlCommand(),
	)
	return root
}
