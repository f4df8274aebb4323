package apiserver_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"muster.dev/muster/internal/testkit/server"
)

// kubectl is the stock kubectl against one server.
type kubectl struct {
	kubeconfig, cache string
	input             string // a file for what a command is to read
}

func newKubectl(t *testing.T, s *server.Server) kubectl {
	t.Helper()
	t.Setenv("KUBERC", "off")
	return kubectl{kubeconfig: s.Kubeconfig(t), cache: t.TempDir(), input: filepath.Join(t.TempDir(), "input.yaml")}
}

// fatal is how a kubectl command ends that would have ended the process.
type fatal struct{ message string }

// run gives kubectl its arguments, and its input where they say "-"; it returns
// what kubectl prints and the message it fails with.
func (k kubectl) run(input string, args ...string) (out string, failure error) {
	var stdout, stderr bytes.Buffer
	command := cmd.NewKubectlCommand(cmd.KubectlOptions{
		ConfigFlags: genericclioptions.NewConfigFlags(true),
		IOStreams:   genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr},
	})
	cmdutil.BehaviorOnFatal(func(message string, _ int) { panic(fatal{message}) })
	defer cmdutil.DefaultBehaviorOnFatal()
	defer func() {
		switch v := recover().(type) {
		case nil:
		case fatal:
			out, failure = stdout.String(), fmt.Errorf("%s%s", stderr.String(), v.message)
		default:
			panic(v)
		}
	}()
	all := []string{"--kubeconfig", k.kubeconfig, "--cache-dir", k.cache}
	for _, arg := range args {
		if arg == "-" { // kubectl reads the process's own input, not the stream's
			arg = k.input
			if err := os.WriteFile(k.input, []byte(input), 0o600); err != nil {
				return "", err
			}
		}
		all = append(all, arg)
	}
	command.SetArgs(all)
	err := command.Execute()
	return stdout.String(), err
}

// must is run for commands that succeed.
func (k kubectl) must(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := k.run(input, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// hostAddress is an address of this machine that others could reach.
func hostAddress(t *testing.T) net.IP {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.To4()
		}
	}
	t.Skip("this machine has only loopback addresses")
	return nil
}

// logd is a daemon with an init step; %s is its namespace's name.
const logd = `
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: logd
  labels: {app: logd}
spec:
  selector: {matchLabels: {app: logd}}
  template:
    metadata: {labels: {app: logd}}
    spec:
      initContainers:
      - {name: configure, image: example/configure}
      containers:
      - {name: ship, image: example/ship}
`

func TestKubectlWorksOnADaemon(t *testing.T) {
	k := newKubectl(t, server.Shared(t))
	k.must(t, "", "create", "namespace", "kubectl")
	ns := []string{"-n", "kubectl"}

	if out := k.must(t, logd, append(ns, "apply", "-f", "-")...); out != "daemonset.apps/logd created\n" {
		t.Errorf("apply: %q", out)
	}
	if out := k.must(t, logd, append(ns, "apply", "-f", "-")...); out != "daemonset.apps/logd unchanged\n" {
		t.Errorf("apply again: %q", out)
	}
	changed := strings.Replace(logd, "example/ship", "example/ship:2", 1)
	if out := k.must(t, changed, append(ns, "apply", "-f", "-")...); out != "daemonset.apps/logd configured\n" {
		t.Errorf("apply a change: %q", out)
	}
	if out := k.must(t, changed, append(ns, "diff", "-f", "-")...); out != "" {
		t.Errorf("diff of what is there: %q", out)
	}
	table := strings.Fields(k.must(t, "", append(ns, "get", "ds", "logd", "-o", "wide")...))
	if got := strings.Join(table, " "); !strings.HasPrefix(got, "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE NODE SELECTOR AGE CONTAINERS IMAGES SELECTOR logd 0 0 0 0 0 <none>") ||
		!strings.Contains(got, "ship example/ship:2 app=logd") {
		t.Errorf("get prints %s", got)
	}
	if out := k.must(t, "", append(ns, "describe", "ds", "logd")...); !strings.Contains(out, "Init Containers:") {
		t.Errorf("describe prints %s", out)
	}
	if out := k.must(t, "", append(ns, "get", "all", "-o", "name")...); out != "daemonset.apps/logd\n" {
		t.Errorf("get all prints %q", out)
	}
	k.must(t, "", append(ns, "label", "ds/logd", "tier=node")...)
	k.must(t, "", append(ns, "patch", "ds", "logd", "-p", `{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":2}}}}`)...)
	if out := k.must(t, "", append(ns, "get", "ds", "-l", "tier=node", "-o", "jsonpath={.items[*].spec.updateStrategy.rollingUpdate.maxUnavailable}")...); out != "2" {
		t.Errorf("after the patch: %q", out)
	}
	if out := k.must(t, "", append(ns, "delete", "ds", "logd")...); !strings.HasPrefix(out, `daemonset.apps "logd" deleted`) {
		t.Errorf("delete: %q", out)
	}
}

func TestServerSideApplyKnowsWhoOwnsAField(t *testing.T) {
	k := newKubectl(t, server.Shared(t))
	k.must(t, "", "create", "namespace", "ssa")
	apply := func(manifest, manager string, more ...string) (string, error) {
		return k.run(manifest, append([]string{"-n", "ssa", "apply", "--server-side", "-f", "-", "--field-manager", manager}, more...)...)
	}
	if out, err := apply(logd, "one"); err != nil || out != "daemonset.apps/logd serverside-applied\n" {
		t.Fatalf("%q, %v", out, err)
	}
	changed := strings.Replace(logd, "example/ship", "example/ship:2", 1)
	_, err := apply(changed, "two")
	if err == nil || !strings.Contains(err.Error(), `conflict with "one": .spec.template.spec.containers[name="ship"].image`) {
		t.Errorf("another manager's change gives: %v", err)
	}
	if _, err := apply(changed, "two", "--force-conflicts"); err != nil {
		t.Errorf("forced: %v", err)
	}
}

func TestExplainAndDryRunAskTheServer(t *testing.T) {
	k := newKubectl(t, server.Shared(t))
	out := k.must(t, "", "explain", "daemonset.spec.updateStrategy.rollingUpdate")
	if !strings.Contains(out, "GROUP:      apps") || !strings.Contains(out, "maxUnavailable\t<IntOrString>") {
		t.Errorf("explain prints %s", out)
	}
	if out := k.must(t, "", "explain", "pod.spec.initContainers"); !strings.Contains(out, "init containers") {
		t.Errorf("explain prints %s", out)
	}
	if out := k.must(t, logd, "apply", "--dry-run=server", "-f", "-"); out != "daemonset.apps/logd created (server dry run)\n" {
		t.Errorf("dry run prints %q", out)
	}
	if out, err := k.run("", "get", "ds", "logd"); err == nil {
		t.Errorf("the dry run left %q", out)
	}
}

func TestKindsNobodyActsOnAreRefusedAtOnce(t *testing.T) {
	k := newKubectl(t, server.Shared(t))
	for _, kind := range []string{"Deployment", "StatefulSet", "ReplicaSet"} {
		_, err := k.run(strings.Replace(logd, "DaemonSet", kind, 1), "apply", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf(`no matches for kind "%s" in version "apps/v1"`, kind)) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := k.run("", "create", "job", "x", "--image=y"); err == nil {
		t.Error("a Job was accepted")
	}
	if _, err := k.run("", "get", "deployments"); err == nil || !strings.Contains(err.Error(), `the server doesn't have a resource type "deployments"`) {
		t.Errorf("get deployments: %v", err)
	}
}

func TestRawKubeconfigWorksWithAPlainFile(t *testing.T) {
	// The kubeconfig stands alone: it works from anywhere, with nothing beside it.
	s := server.Shared(t)
	data, err := os.ReadFile(s.Kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.WriteFile(moved, data, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERC", "off")
	k := kubectl{kubeconfig: moved, cache: t.TempDir()}
	if out := k.must(t, "", "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); out != "kubernetes-admin" {
		t.Errorf("it logs in as %q", out)
	}
}
