package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"muster.dev/muster/internal/coverage"
)

// coverageOptions are the choices of one run of the coverage verb.
type coverageOptions struct {
	genericiooptions.IOStreams
	config    *genericclioptions.ConfigFlags
	daemon    string
	poolLabel string
	all       bool
	output    string
}

// NewCoverageCommand is the verb that shows, for any Kubernetes cluster, which
// node lacks which daemon and why.
func NewCoverageCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &coverageOptions{IOStreams: streams, config: genericclioptions.NewConfigFlags(true)}
	command := &cobra.Command{
		Use:   "coverage [DAEMON]",
		Short: "Show which node lacks which daemon, and why, by node pool",
		Long: `Show for every DaemonSet and node pool how many nodes there are, how many want
the daemon and how many have it Ready; then every node that lacks it, with the
reason and what can be done. Nodes that the daemon's own selectors choose but a
taint keeps out are named too: the DaemonSet's own numbers do not show them.

It only reads (nodes, pods, daemonsets) and works with any Kubernetes cluster.`,
		Example: `  # Every daemon in the cluster
  muster coverage

  # One daemon, pools by a label of your own, for a script
  muster coverage log-agent -n logging --pool-label example.com/pool -o json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.daemon = args[0]
			}
			return o.run(command.Context())
		},
	}
	flags := command.Flags()
	o.config.AddFlags(flags)
	flags.StringVar(&o.poolLabel, "pool-label", "", "Node label whose value is the node's pool (default: the labels in common use)")
	flags.BoolVarP(&o.all, "all-namespaces", "A", false, "Look at all namespaces, which is also what happens without -n")
	flags.StringVarP(&o.output, "output", "o", "", "Output format: json or wide (every node and Pod by name)")
	return command
}

func (o *coverageOptions) run(ctx context.Context) error {
	if o.output != "" && o.output != "json" && o.output != "wide" {
		return fmt.Errorf("output format %q is not known: use json or wide", o.output)
	}
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1 // a few lists; the server's own limits are enough
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	report, err := o.report(ctx, client)
	if err != nil {
		return err
	}
	if o.output == "json" {
		encoder := json.NewEncoder(o.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	return printCoverage(o.IOStreams, report, o.output == "wide")
}

// report asks the cluster and reads its matrix out.
func (o *coverageOptions) report(ctx context.Context, client kubernetes.Interface) (coverage.Report, error) {
	namespace := *o.config.Namespace
	if o.all {
		namespace = metav1.NamespaceAll
	}
	matrix, err := readMatrix(ctx, client, namespace)
	if err != nil {
		return coverage.Report{}, err
	}
	report := matrix.Report(o.poolLabel, time.Now())
	if o.daemon == "" {
		return report, nil
	}
	only := report.Lines[:0]
	for _, line := range report.Lines {
		if line.Daemon == o.daemon {
			only = append(only, line)
		}
	}
	if report.Lines = only; len(only) == 0 {
		return report, fmt.Errorf("daemonsets.apps %q not found, or the cluster has no nodes", o.daemon)
	}
	return report, nil
}

// readMatrix fills a matrix with lists. A list that fails ends it: half a picture
// would name holes that are none.
func readMatrix(ctx context.Context, client kubernetes.Interface, namespace string) (*coverage.Matrix, error) {
	matrix := coverage.New()
	lists := []struct {
		what string
		list pager.ListPageFunc
		set  func(runtime.Object)
	}{
		{"nodes", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Nodes().List(ctx, o)
		}, func(object runtime.Object) { matrix.SetNode(object.(*v1.Node)) }},
		{"daemonsets", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.AppsV1().DaemonSets(namespace).List(ctx, o)
		}, func(object runtime.Object) { matrix.SetDaemon(object.(*appsv1.DaemonSet)) }},
		{"pods", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Pods(namespace).List(ctx, o)
		}, func(object runtime.Object) { matrix.SetPod(object.(*v1.Pod)) }},
	}
	for _, each := range lists {
		err := pager.New(each.list).EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
			each.set(object)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", each.what, err)
		}
	}
	return matrix, nil
}
