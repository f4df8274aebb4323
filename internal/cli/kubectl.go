package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	basecli "k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
)

// defaultDataDir is where `muster up` keeps everything unless told otherwise.
const defaultDataDir = "/var/lib/muster"

// newKubectlCommand lists kubectl in muster's help; Main runs it.
func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl",
		Short:              "The stock kubectl, built in; it finds this machine's cluster by itself",
		DisableFlagParsing: true,
		Run:                func(_ *cobra.Command, args []string) { os.Exit(kubectl(args)) },
	}
}

// kubectl runs the stock kubectl with args and returns its exit code.
func kubectl(args []string) int {
	useLocalCluster(args)
	os.Args = append([]string{"kubectl"}, args...)
	_, _ = logs.GlogSetter(kubectlcmd.GetLogVerbosity(os.Args)) // a bad -v is reported when flags are parsed
	if err := basecli.RunNoErrOutput(kubectlcmd.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints and exits with kubectl's own code
		return 1
	}
	return 0
}

// useLocalCluster points KUBECONFIG at the cluster `muster up` made here, unless
// the caller named one: by flag, by environment or by a kubeconfig of their own.
func useLocalCluster(args []string) {
	named := slices.ContainsFunc(args, func(arg string) bool {
		return arg == "--kubeconfig" || strings.HasPrefix(arg, "--kubeconfig=")
	})
	local := filepath.Join(defaultDataDir, "kubeconfig")
	if named || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" || !readable(local) || readable(clientcmd.RecommendedHomeFile) {
		return
	}
	os.Setenv(clientcmd.RecommendedConfigPathEnvVar, local)
}

func readable(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	file.Close()
	return true
}
