// Package agenttest runs the node agent against a real API server and a real
// containerd: what the node's own credentials may do, what the API server takes
// of its statuses, and what comes back through its endpoint. It is apart from the
// agent's other tests because the API server is slow to link.
package agenttest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"muster.dev/muster/internal/agent"
	"muster.dev/muster/internal/runtime/cri"
	"muster.dev/muster/internal/runtime/runtimetest"
	"muster.dev/muster/internal/testkit/server"
)

const (
	nodeName  = "n1"
	namespace = "default"
)

// machine is an API server and a containerd, which outlive agents.
type machine struct {
	admin  kubernetes.Interface
	server *server.Server
	ctd    *runtimetest.Containerd
	dir    string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	ctd := runtimetest.StartContainerd(t) // first, since it may skip the test
	s := server.StartServer(t)
	m := &machine{admin: kubernetes.NewForConfigOrDie(s.Client()), server: s, ctd: ctd, dir: t.TempDir()}
	m.seed(t)
	return m
}

// seed makes what controllers would: the namespace's service account and root CA.
func (m *machine) seed(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	_, err := m.admin.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	_, err = m.admin.CoreV1().ServiceAccounts(namespace).Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.admin.CoreV1().ConfigMaps(namespace).Create(ctx, &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": string(m.server.CA)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// start starts an agent with the node's own credentials; the result ends it, and
// so does the end of the test.
func (m *machine) start(t *testing.T) (stop func()) {
	t.Helper()
	login, err := m.server.PKI.AgentClient(nodeName)
	if err != nil {
		t.Fatal(err)
	}
	serving, err := m.server.PKI.AgentServer(nodeName, []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := cri.New(cri.Options{Endpoint: m.ctd.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	config := agent.Config{
		NodeName: nodeName, NodeIPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Client: m.server.Config(login), Runtime: client,
		RootDir: filepath.Join(m.dir, "root"), PodLogsDir: filepath.Join(m.dir, "pods"), ContainerLogsDir: filepath.Join(m.dir, "containers"),
		Endpoint: agent.Endpoint{
			Listen: "127.0.0.1:0", CertFile: serving.CertFile, KeyFile: serving.KeyFile, ClientCAFile: m.server.PKI.Client.CertFile,
		},
		CgroupParent: m.ctd.CgroupParent, APIHost: "127.0.0.1", APIPort: 6443,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.Run(ctx, config) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the agent ended with %v", err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func (m *machine) await(t *testing.T, name, what string, ok func(*v1.Pod) bool) *v1.Pod {
	t.Helper()
	var got *v1.Pod
	runtimetest.Await(t, fmt.Sprintf("pod %s: %s", name, what), func() (bool, string) {
		pod, err := m.admin.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		got = pod
		return ok(pod), fmt.Sprintf("%+v", pod.Status)
	})
	return got
}

func TestPodOverTheAPI(t *testing.T) {
	m := newMachine(t)
	stop := m.start(t)
	m.awaitNode(t)
	m.createSecret(t)
	began := time.Now()
	pod, err := m.admin.CoreV1().Pods(namespace).Create(t.Context(), threeSteps("demo"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ready := m.await(t, pod.Name, "Ready", isReady)
	t.Logf("from create to Ready with 3 init steps: %v", time.Since(began))
	checkStatus(t, ready)
	m.checkLogs(t, ready)
	m.checkEvents(t, ready)

	stop()
	m.start(t)
	time.Sleep(time.Second) // whatever a new agent wrongly does, it does at once
	again := m.await(t, pod.Name, "Ready", isReady)
	if before, after := ready.Status.ContainerStatuses[0], again.Status.ContainerStatuses[0]; before.ContainerID != after.ContainerID || after.RestartCount != 0 {
		t.Errorf("a restart of the agent changed the container: %+v, then %+v", before, after)
	}

	if err := m.admin.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.awaitGone(t, pod)
}

// awaitGone waits until neither the API nor the machine has anything of the Pod.
func (m *machine) awaitGone(t *testing.T, pod *v1.Pod) {
	t.Helper()
	runtimetest.Await(t, "the Pod to be gone", func() (bool, string) {
		_, err := m.admin.CoreV1().Pods(namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		left, failed := filepath.Glob(filepath.Join(m.dir, "*", "*", "*"+string(pod.UID)))
		logs, failedToo := filepath.Glob(filepath.Join(m.dir, "*", "*"+pod.Name+"*"))
		left = append(left, logs...)
		return apierrors.IsNotFound(err) && len(left) == 0 && failed == nil && failedToo == nil, fmt.Sprint(err, left)
	})
}

func (m *machine) awaitNode(t *testing.T) {
	t.Helper()
	runtimetest.Await(t, "the node to be Ready", func() (bool, string) {
		node, err := m.admin.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		lease, err := m.admin.CoordinationV1().Leases(v1.NamespaceNodeLease).Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
			return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
		}) && lease.Spec.RenewTime != nil, fmt.Sprintf("%+v", node.Status.Conditions)
	})
}

func (m *machine) createSecret(t *testing.T) {
	t.Helper()
	_, err := m.admin.CoreV1().Secrets(namespace).Create(t.Context(), &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "key"}, StringData: map[string]string{"word": "sesame"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// threeSteps is a Pod with three init steps; the last says a secret's word.
func threeSteps(name string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
		NodeName: nodeName,
		Volumes: []v1.Volume{
			{Name: "work", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
			{Name: "key", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "key"}}},
		},
		Containers: []v1.Container{{Name: "main", Image: runtimetest.ProgImage, Args: []string{"print", "up", "wait", "0"}}},
	}}
	for i := range 3 {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{
			Name: fmt.Sprintf("step-%d", i), Image: runtimetest.ProgImage,
			Args: []string{"print", fmt.Sprintf("step %d says $(WORD)", i), "write", fmt.Sprintf("/work/%d", i), "done"},
			Env: []v1.EnvVar{{Name: "WORD", ValueFrom: &v1.EnvVarSource{
				SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "key"}, Key: "word"},
			}}},
			VolumeMounts: []v1.VolumeMount{{Name: "work", MountPath: "/work"}, {Name: "key", MountPath: "/key"}},
		})
	}
	return pod
}

func isReady(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

func checkStatus(t *testing.T, pod *v1.Pod) {
	t.Helper()
	if pod.Status.Phase != v1.PodRunning || pod.Status.PodIP == "" || pod.Status.HostIP != "127.0.0.1" || pod.Status.ObservedGeneration != pod.Generation {
		t.Errorf("status %+v", pod.Status)
	}
	for _, kind := range []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized, v1.ContainersReady, v1.PodReadyToStartContainers} {
		if !slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == kind && c.Status == v1.ConditionTrue }) {
			t.Errorf("condition %s is not True: %+v", kind, pod.Status.Conditions)
		}
	}
	for _, s := range pod.Status.InitContainerStatuses {
		if s.State.Terminated == nil || s.State.Terminated.Reason != "Completed" || !s.Ready || s.RestartCount != 0 {
			t.Errorf("init step %s: %+v", s.Name, s)
		}
	}
}

// checkLogs reads a log through the API server, which calls the agent's endpoint.
func (m *machine) checkLogs(t *testing.T, pod *v1.Pod) {
	t.Helper()
	text, err := m.admin.CoreV1().Pods(namespace).GetLogs(pod.Name, &v1.PodLogOptions{Container: "step-2"}).DoRaw(t.Context())
	if err != nil || string(text) != "step 2 says sesame\n" {
		t.Errorf("log of the last step: %q, %v", text, err)
	}
}

func (m *machine) checkEvents(t *testing.T, pod *v1.Pod) {
	t.Helper()
	runtimetest.Await(t, "the Pod's events", func() (bool, string) {
		list, err := m.admin.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod.Name})
		if err != nil {
			return false, err.Error()
		}
		var seen []string
		for _, e := range list.Items {
			seen = append(seen, e.Reason+" "+e.InvolvedObject.FieldPath)
		}
		all := strings.Join(seen, "\n")
		ok := true
		for _, want := range []string{"Pulled spec.initContainers{step-0}", "Created spec.initContainers{step-2}", "Started spec.containers{main}"} {
			ok = ok && strings.Contains(all, want)
		}
		return ok, all
	})
}
