package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"muster.dev/muster/internal/coverage"
	"muster.dev/muster/internal/testkit/build"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// golden compares what was printed with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading the golden file: %v", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}

// audited is a cluster with a well covered pool, a tainted one, and trouble.
func audited() (nodes []v1.Node, sets []appsv1.DaemonSet, pods []v1.Pod) {
	logd := build.DaemonSet("logd")
	canary := build.DaemonSet("canary", build.Selecting("canary=true"), func(set *appsv1.DaemonSet) { set.Namespace = "kube-system" })
	for i := range 3 {
		name := fmt.Sprintf("a%d", i)
		nodes = append(nodes, *build.Node(name, build.Labelled("cloud.google.com/gke-nodepool=a")))
		pods = append(pods, *build.DaemonPod(logd, name, "h1"))
	}
	build.Labelled("canary=true")(&nodes[0])
	pods[2].Status = v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
		Name: "main", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: `Back-off pulling image "daemon:v9"`}},
	}}}
	for i := range 7 {
		nodes = append(nodes, *build.Node(fmt.Sprintf("b%d", i), build.Labelled("cloud.google.com/gke-nodepool=b"), build.Tainted("gpu=true:NoSchedule")))
	}
	return nodes, []appsv1.DaemonSet{*logd, *canary}, pods
}

// serve answers the three lists of the audited cluster, and refuses what is named.
func serve(t *testing.T, refuse string) (kubeconfig string) {
	nodes, sets, pods := audited()
	mux := http.NewServeMux()
	answer := func(path string, list any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			if refuse != "" && strings.HasSuffix(path, refuse) {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(list)
		})
	}
	kind := func(apiVersion, kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
	}
	answer("/api/v1/nodes", v1.NodeList{TypeMeta: kind("v1", "NodeList"), Items: nodes})
	answer("/api/v1/pods", v1.PodList{TypeMeta: kind("v1", "PodList"), Items: pods})
	answer("/apis/apps/v1/daemonsets", appsv1.DaemonSetList{TypeMeta: kind("apps/v1", "DaemonSetList"), Items: sets})
	answer("/api/v1/namespaces/default/pods", v1.PodList{TypeMeta: kind("v1", "PodList"), Items: pods})
	answer("/apis/apps/v1/namespaces/default/daemonsets", appsv1.DaemonSetList{TypeMeta: kind("apps/v1", "DaemonSetList"), Items: sets[:1]})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}],
contexts: [{name: c, context: {cluster: c}}]}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// ask runs the verb and returns what it wrote.
func ask(kubeconfig string, args ...string) (out string, err error) {
	var buffer bytes.Buffer
	command := NewCoverageCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &buffer, ErrOut: io.Discard})
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(append(args, "--kubeconfig", kubeconfig))
	err = command.ExecuteContext(context.Background())
	return buffer.String(), err
}

func TestCoverageShowsEveryHole(t *testing.T) {
	kubeconfig := serve(t, "")
	for file, args := range map[string][]string{
		"coverage.txt":        nil,
		"coverage-wide.txt":   {"-o", "wide"},
		"coverage-label.txt":  {"--pool-label", "canary"},
		"coverage-daemon.txt": {"logd", "-n", "default"},
	} {
		t.Run(file, func(t *testing.T) {
			out, err := ask(kubeconfig, args...)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, file, out)
		})
	}
}

func TestCoverageInJSONIsAReport(t *testing.T) {
	out, err := ask(serve(t, ""), "logd", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var report coverage.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("the output is no JSON: %v", err)
	}
	if report.Kind != "CoverageReport" || len(report.Lines) != 2 || len(report.Lines[1].Holes) != 7 {
		t.Errorf("the report is %+v", report)
	}
	golden(t, "coverage.json", out)
}

func TestCoverageNeverShowsHalfAPicture(t *testing.T) {
	for _, refused := range []string{"/nodes", "/pods", "/daemonsets"} {
		out, err := ask(serve(t, refused))
		if err == nil || !strings.Contains(err.Error(), "listing "+strings.TrimPrefix(refused, "/")) || out != "" {
			t.Errorf("without %s it says %v and prints %q", refused, err, out)
		}
	}
}

func TestCoverageRefusesWhatItDoesNotKnow(t *testing.T) {
	kubeconfig := serve(t, "")
	for _, args := range [][]string{{"nosuch"}, {"-o", "yaml"}, {"one", "two"}} {
		if out, err := ask(kubeconfig, args...); err == nil || out != "" {
			t.Errorf("%q gives %q and no error", args, out)
		}
	}
}
