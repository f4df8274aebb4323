package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"muster.dev/muster/internal/up"
)

func newUpCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var config up.Config
	var detached, verbose bool
	command := &cobra.Command{
		Use:   "up",
		Short: "Run a whole one-machine cluster with real containers",
		Long: `Run a whole one-machine cluster: an API server on an embedded store, the control
loops, the agent of this node, and a containerd of its own. A second up takes up
where the first left off. Ctrl-C stops the control plane and the agent and leaves
containers running; muster down stops them.`,
		Example: `  # In the foreground, everything under /var/lib/muster
  muster up

  # In the background; returns when the node is Ready
  muster up --detach`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if detached {
				return detach(cmd.Context(), config, os.Args[1:], streams.Out)
			}
			logTo(streams.ErrOut, verbose)
			return up.Run(cmd.Context(), config, announce(streams.Out))
		},
	}
	flags := command.Flags()
	addDataDir(flags, &config.DataDir)
	flags.StringVar(&config.PodLogsDir, "pod-logs-dir", "", "where Pod logs stand (default /var/log/pods)")
	flags.StringVar(&config.ContainerLogsDir, "container-logs-dir", "", "where the links to container logs stand (default /var/log/containers)")
	flags.StringVar(&config.Listen, "listen", up.DefaultListen, "address and port of the API server; without an address, every address of the machine")
	flags.StringVar(&config.NodeName, "node-name", "", "the node's name (default the host's name)")
	flags.IntVar(&config.AgentPort, "agent-port", up.DefaultAgentPort, "port of the agent's HTTPS endpoint (logs and exec)")
	flags.TextVar(&config.PodCIDR, "pod-cidr", netip.MustParsePrefix(up.DefaultPodCIDR), "the node's IPv4 Pod network")
	flags.StringVar(&config.ServiceCIDR, "service-cidr", up.DefaultServiceCIDR, "where Services get their addresses")
	flags.StringToStringVar(&config.Labels, "node-label", nil, "labels the node registers with, as key=value")
	flags.BoolVar(&detached, "detach", false, "run in the background; return when the node is Ready")
	flags.BoolVar(&verbose, "verbose", false, "log everything the rooms have to say")
	return command
}

// addDataDir is the flag by which up, down and images find the same cluster.
func addDataDir(flags *pflag.FlagSet, dir *string) {
	flags.StringVar(dir, "data-dir", defaultDataDir, "where everything is kept")
}

// announce prints each step as it begins. In a detached child the steps, and that
// the node is Ready, go to the parent too, over the pipe it was given.
func announce(out io.Writer) up.Progress {
	parent := parentPipe()
	if parent == nil {
		return up.Progress{Say: func(line string) { fmt.Fprintln(out, line) }, Ready: func() {}}
	}
	return up.Progress{
		Say: func(line string) {
			fmt.Fprintln(out, line)
			fmt.Fprintln(parent, line) // fails once the parent has gone its way; the log has the line
		},
		Ready: func() { fmt.Fprintln(parent, readyMark); parent.Close() },
	}
}

// logTo sends the rooms' logs and those of Kubernetes' libraries one way.
func logTo(out io.Writer, verbose bool) {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelInfo
	}
	logger := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
	slog.SetDefault(logger)
	klog.SetSlogLogger(logger)
}

func newDownCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var dataDir string
	var purge bool
	command := &cobra.Command{
		Use:   "down",
		Short: "Stop this machine's cluster and its containers",
		Long: `Stop this machine's cluster: the control plane, the agent, every container and
containerd, and remove mounts, network and control groups. The cluster's objects
and images stay for the next up, unless --purge takes the data directory away too.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logTo(streams.ErrOut, false)
			return up.Down(cmd.Context(), dataDir, purge, announce(streams.Out))
		},
	}
	addDataDir(command.Flags(), &dataDir)
	command.Flags().BoolVar(&purge, "purge", false, "remove the data directory and all it holds")
	return command
}

func newImagesCommand(streams genericiooptions.IOStreams) *cobra.Command {
	images := &cobra.Command{Use: "images", Short: "The images of this machine's cluster"}
	var dataDir string
	load := &cobra.Command{
		Use:     "import FILE...",
		Short:   "Import image archives (docker save or OCI layout), for machines without a registry",
		Example: "  muster images import agent.tar",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			return importImages(cmd.Context(), dataDir, files, streams.Out)
		},
	}
	addDataDir(load.Flags(), &dataDir)
	images.AddCommand(load)
	return images
}

func importImages(ctx context.Context, dataDir string, files []string, out io.Writer) error {
	for _, file := range files {
		absolute, err := filepath.Abs(file)
		if err != nil {
			return fmt.Errorf("importing %s: %w", file, err)
		}
		names, err := up.Import(ctx, dataDir, absolute)
		if err != nil {
			return fmt.Errorf("importing %s: %w", file, err)
		}
		for _, name := range names {
			fmt.Fprintln(out, name)
		}
	}
	return nil
}
