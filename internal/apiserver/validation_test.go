package apiserver_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"muster.dev/muster/internal/testkit/server"
)

// manifest is a change to the example daemon that makes it wrong, and what
// Kubernetes says to it.
type manifest struct {
	name     string
	old, new string
	want     string
}

var wrong = []manifest{
	{"unknown field", "image: example/ship", "imagee: example/ship",
		`unknown field "spec.template.spec.containers[0].imagee"`},
	{"unknown field of an init step", "image: example/configure", "image: example/configure, retries: 3",
		`unknown field "spec.template.spec.initContainers[0].retries"`},
	{"wrong type", "image: example/ship", "image: [example/ship]",
		`cannot unmarshal array into Go struct field Container.spec.template.spec.containers.image of type string`},
	{"selector that does not match", "matchLabels: {app: logd}", "matchLabels: {app: other}",
		"spec.template.metadata.labels: Invalid value: {\"app\":\"logd\"}: `selector` does not match template `labels`"},
	{"no selector", "selector: {matchLabels: {app: logd}}", "selector: {}",
		"spec.selector: Invalid value: {}: empty selector is invalid for daemonset"},
	{"name twice", "{name: configure,", "{name: ship,",
		`spec.template.spec.initContainers[0].name: Duplicate value: "ship"`},
	{"readiness probe on an init step", "image: example/configure", "image: example/configure, readinessProbe: {exec: {command: [a]}}",
		`spec.template.spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always`},
	{"liveness probe on an init step", "image: example/configure", "image: example/configure, livenessProbe: {exec: {command: [a]}}",
		`spec.template.spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always`},
	{"lifecycle on an init step", "image: example/configure", "image: example/configure, lifecycle: {preStop: {exec: {command: [a]}}}",
		`spec.template.spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always`},
	{"restart policy", "initContainers:", "restartPolicy: Never\n      initContainers:",
		`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`},
	{"no container", "      containers:\n      - {name: ship, image: example/ship}\n", "      containers: []\n",
		`spec.template.spec.containers: Required value`},
	{"no image", "image: example/ship", "command: [a]",
		`spec.template.spec.containers[0].image: Required value`},
	{"bad name", "{name: configure,", "{name: Configure_It,",
		`spec.template.spec.initContainers[0].name: Invalid value: "Configure_It"`},
	{"bad quantity", "image: example/ship", "image: example/ship, resources: {limits: {cpu: lots}}",
		`quantities must match the regular expression`},
	{"request above limit", "image: example/ship", "image: example/ship, resources: {requests: {cpu: 2}, limits: {cpu: 1}}",
		`spec.template.spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`},
	{"mount of no volume", "image: example/configure", "image: example/configure, volumeMounts: [{name: none, mountPath: /x}]",
		`spec.template.spec.initContainers[0].volumeMounts[0].name: Not found: "none"`},
	{"budget of nothing", "  template:", "  updateStrategy: {rollingUpdate: {maxUnavailable: 0}}\n  template:",
		`spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0`},
}

func TestWrongManifestsAreRefusedInKubernetesWords(t *testing.T) {
	s := server.Shared(t)
	k := newKubectl(t, s)
	k.must(t, "", "create", "namespace", "wrong")
	for _, m := range wrong {
		t.Run(m.name, func(t *testing.T) {
			text := strings.Replace(logd, m.old, m.new, 1)
			if text == logd {
				t.Fatalf("%q is not in the manifest", m.old)
			}
			for _, more := range [][]string{nil, {"--server-side"}} {
				out, err := k.run(text, append([]string{"-n", "wrong", "apply", "-f", "-"}, more...)...)
				if err == nil {
					t.Fatalf("%v accepted: %s", more, out)
				}
				// Server-side apply words some errors of form otherwise.
				if more == nil && !strings.Contains(err.Error(), m.want) {
					t.Errorf("it says\n  %v\nwant\n  %s", err, m.want)
				}
			}
		})
	}
	left, err := owner(t, s).AppsV1().DaemonSets("wrong").List(soon(t), metav1.ListOptions{})
	if err != nil || len(left.Items) != 0 {
		t.Errorf("half applied: %v, %v", left.Items, err)
	}
}

func TestWhatIsLeftOutIsFilledIn(t *testing.T) {
	s := server.Shared(t)
	k := newKubectl(t, s)
	k.must(t, "", "create", "namespace", "defaults")
	k.must(t, logd, "-n", "defaults", "apply", "-f", "-")
	ds, err := owner(t, s).AppsV1().DaemonSets("defaults").Get(soon(t), "logd", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := ds.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.IntValue(); got != 1 {
		t.Errorf("maxUnavailable is %d", got)
	}
	if got := *ds.Spec.RevisionHistoryLimit; got != 10 {
		t.Errorf("revisionHistoryLimit is %d", got)
	}
	pod := ds.Spec.Template.Spec
	if pod.RestartPolicy != "Always" || *pod.TerminationGracePeriodSeconds != 30 || pod.InitContainers[0].ImagePullPolicy != "Always" {
		t.Errorf("the template's Pod is %+v", pod)
	}
}
