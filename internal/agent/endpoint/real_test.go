package endpoint

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/utils/ptr"

	"muster.dev/muster/internal/agent/spec"
	"muster.dev/muster/internal/agent/volume"
	"muster.dev/muster/internal/runtime"
	"muster.dev/muster/internal/runtime/cri"
	"muster.dev/muster/internal/runtime/runtimetest"
)

const busybox = "/bin/busybox"

// realPod asks for much of what spec and volume do, and shows it through a shell
// that it finds on the node.
func realPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "0a1b2c3d-0000-4000-8000-00000000e2e0", Labels: map[string]string{"app": "web"}},
		Spec: v1.PodSpec{
			Hostname: "chosen", Subdomain: "sub", ServiceAccountName: "default",
			HostAliases: []v1.HostAlias{{IP: "192.0.2.99", Hostnames: []string{"db"}}},
			SecurityContext: &v1.PodSecurityContext{
				FSGroup: ptr.To[int64](3000), SupplementalGroups: []int64{4000},
				SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
			},
			Volumes: []v1.Volume{
				{Name: "shell", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: busybox, Type: ptr.To(v1.HostPathFile)}}},
				{Name: "conf", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "conf"}}}},
				{Name: "login", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "login", DefaultMode: ptr.To[int32](0o400)}}},
				{Name: "work", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "info", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
					{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}}},
			},
			Containers: []v1.Container{{
				Name: "app", Image: runtimetest.ProgImage,
				Command: []string{"/busybox", "httpd", "-f", "-p", "8080", "-h", "/"},
				Env: []v1.EnvVar{
					{Name: "PASSWORD", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: "login"}, Key: "password"}}},
					{Name: "BOTH", Value: "$(PASSWORD)-$$(PASSWORD)"},
				},
				Resources: v1.ResourceRequirements{
					Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("16Mi")},
					Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi"), v1.ResourceCPU: resource.MustParse("500m")},
				},
				SecurityContext: &v1.SecurityContext{
					RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](2000), AllowPrivilegeEscalation: ptr.To(false),
					ReadOnlyRootFilesystem: ptr.To(true),
					Capabilities:           &v1.Capabilities{Drop: []v1.Capability{"ALL"}},
				},
				TerminationMessagePath: "/dev/termination-log",
				VolumeMounts: []v1.VolumeMount{
					{Name: "shell", MountPath: "/busybox", ReadOnly: true},
					{Name: "conf", MountPath: "/conf"},
					{Name: "conf", MountPath: "/one/greeting", SubPath: "greeting"},
					{Name: "login", MountPath: "/login"},
					{Name: "work", MountPath: "/work"},
					{Name: "work", MountPath: "/deep", SubPath: "a/b"},
					{Name: "info", MountPath: "/info"},
				},
			}},
		},
	}
}

// runtimePods answers the endpoint's questions from the runtime itself.
type runtimePods struct {
	runtime runtime.Runtime
	pod     *v1.Pod
	logs    string
}

func (p runtimePods) Pod(namespace, name string) (*v1.Pod, bool) {
	return p.pod, namespace == p.pod.Namespace && name == p.pod.Name
}

func (p runtimePods) Pods() []*v1.Pod { return []*v1.Pod{p.pod} }

func (p runtimePods) Runs(ctx context.Context, uid types.UID, container string) ([]Run, error) {
	found, err := p.runtime.Pod(ctx, uid)
	var runs []Run
	for _, c := range found.Containers {
		if c.Name == container {
			runs = append(runs, Run{ContainerID: c.ID, LogPath: filepath.Join(p.logs, spec.LogPath(c.Name, c.Attempt)), Running: c.State == runtime.Running})
		}
	}
	return runs, err
}

func (p runtimePods) Sandbox(ctx context.Context, uid types.UID) (string, error) {
	found, err := p.runtime.Pod(ctx, uid)
	if err != nil || len(found.Sandboxes) == 0 {
		return "", err
	}
	return found.Sandboxes[0].ID, nil
}

// realWorld is a Pod that runs in a containerd, and an endpoint before it.
type realWorld struct {
	t       *testing.T
	server  *Server
	config  *rest.Config
	volumes *volume.Manager
	words   string // the file of the container's last words
}

func startRealWorld(t *testing.T) *realWorld {
	t.Helper()
	if _, err := os.Stat(busybox); err != nil {
		t.Skipf("the Pod's shell is the node's static busybox: %v", err)
	}
	containerd := runtimetest.StartContainerd(t)
	client, err := cri.New(cri.Options{Endpoint: containerd.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &realWorld{t: t}
	pod := realPod()
	logs := w.runPod(client, containerd, pod)
	n := startNodeWith(t, runtimePods{runtime: client, pod: pod, logs: logs}, client)
	w.server = n.Server
	w.config = &rest.Config{Host: "https://" + n.Addr().String(), BearerToken: "admin", TLSClientConfig: rest.TLSClientConfig{CAFile: n.pki.Server.CertFile}}
	return w
}

// runPod prepares the Pod's volumes and runs its sandbox and container.
func (w *realWorld) runPod(client runtime.Runtime, containerd *runtimetest.Containerd, pod *v1.Pod) (logs string) {
	t, ctx := w.t, context.Background()
	dir := t.TempDir()
	w.volumes = volume.New(volume.Options{RootDir: dir, NodeName: "node-a", Client: fake.NewClientset(
		&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "conf"}, Data: map[string]string{"greeting": "hello"}},
		&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "login"}, Data: map[string][]byte{"password": []byte("s3cret")}},
	)})
	node := spec.Node{
		Hostname: "node-a", HostIPs: []string{"192.0.2.1"}, MemoryCapacity: 1 << 34, APIHost: "192.0.2.1", APIPort: "6443",
		Resolv: spec.ParseResolv("nameserver 192.0.2.53\nsearch example\n"), LogRoot: filepath.Join(dir, "logs"), CgroupRoot: containerd.CgroupParent,
	}
	logs = spec.LogDirectory(node.LogRoot, pod)
	must(t, os.MkdirAll(filepath.Join(logs, "app"), 0o755))
	mounts, err := w.volumes.Prepare(ctx, pod)
	must(t, err)
	sandbox, err := spec.Sandbox(spec.PodInput{Pod: pod, Node: node})
	must(t, err)
	sandboxID, err := client.RunSandbox(ctx, sandbox, "")
	must(t, err)
	t.Cleanup(func() {
		must(t, client.StopSandbox(ctx, sandboxID))
		must(t, client.RemoveSandbox(ctx, sandboxID))
		must(t, w.volumes.Remove(ctx, pod.UID))
	})
	found, err := client.Pod(ctx, pod.UID)
	must(t, err)
	hosts, err := w.volumes.WriteHosts(pod.UID, spec.HostsFile(pod, node, found.Sandboxes[0].IPs))
	must(t, err)
	w.words, err = w.volumes.TerminationFile(pod.UID, "app", 0)
	must(t, err)
	image, err := client.Image(ctx, pod.Spec.Containers[0].Image)
	must(t, err)
	resolver := w.volumes.Resolver(ctx, pod, mounts)
	config, err := spec.Container(spec.ContainerInput{
		Pod: pod, Container: &pod.Spec.Containers[0], Node: node, PodIPs: found.Sandboxes[0].IPs, ImageRef: image.ID,
		Volumes: resolver, Lookup: resolver, HostsFile: hosts, TerminationFile: w.words,
	})
	must(t, err)
	id, err := client.CreateContainer(ctx, sandboxID, config, sandbox)
	must(t, err)
	must(t, client.StartContainer(ctx, id))
	return logs
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shell runs a script in the container through the endpoint, as kubectl exec does.
func (w *realWorld) shell(script string) string {
	w.t.Helper()
	query := url.Values{"command": {"/busybox", "sh", "-c", script}, "input": {"1"}, "output": {"1"}, "error": {"1"}}
	target, err := url.Parse(w.config.Host + "/exec/ns/web/app?" + query.Encode())
	must(w.t, err)
	executor, err := remotecommand.NewSPDYExecutor(w.config, http.MethodPost, target)
	must(w.t, err)
	var out, complaints bytes.Buffer
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: strings.NewReader("typed\n"), Stdout: &out, Stderr: &complaints})
	if err != nil {
		w.t.Errorf("%s: %v: %s", script, err, complaints.String())
	}
	return strings.TrimSpace(out.String())
}

func TestRealPodIsAsItsSpecSays(t *testing.T) {
	w := startRealWorld(t)
	for script, want := range map[string]string{
		"read line; echo got $line":                                                          "got typed",
		"/busybox id -u; /busybox id -g; /busybox id -G":                                     "1000\n2000\n2000 3000 4000",
		"/busybox hostname":                                                                  "chosen",
		"/busybox grep -c db /etc/hosts":                                                     "1",
		"/busybox grep -o 'chosen.sub.ns.svc' /etc/hosts":                                    "chosen.sub.ns.svc",
		"/busybox cat /etc/resolv.conf":                                                      "search example\nnameserver 192.0.2.53",
		"/busybox cat /conf/greeting /one/greeting":                                          "hellohello",
		"/busybox cat /login/password; /busybox stat -Lc %a /login/password":                 "s3cret440",
		"/busybox cat /info/labels":                                                          `app="web"`,
		"echo x > /work/f && /busybox stat -c %g /work/f":                                    "3000",
		"echo y > /deep/f && /busybox cat /work/a/b/f":                                       "y",
		"echo z > /conf/f || echo refused":                                                   "refused",
		"echo z > /f || echo refused":                                                        "refused",
		"echo $BOTH $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT_HTTPS":                 "s3cret-$(PASSWORD) 192.0.2.1 6443",
		"/busybox grep -E 'NoNewPrivs|^Seccomp:|CapEff' /proc/1/status":                      "CapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2",
		"echo bye > /dev/termination-log && echo said":                                       "said",
		"/busybox grep -o 'burstable/pod0a1b2c3d[^/]*' /proc/self/cgroup | /busybox sort -u": "burstable/pod0a1b2c3d-0000-4000-8000-00000000e2e0",
	} {
		if got := w.shell(script); got != want {
			t.Errorf("%s\n got %q\nwant %q", script, got, want)
		}
	}
	words, err := os.ReadFile(w.words)
	if err != nil || string(words) != "bye\n" {
		t.Errorf("last words: %q, %v", words, err)
	}
}

func TestRealPortForward(t *testing.T) {
	w := startRealWorld(t)
	target, err := url.Parse(w.config.Host + "/portForward/ns/web")
	must(t, err)
	transport, upgrader, err := spdy.RoundTripperFor(w.config)
	must(t, err)
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:8080"}, stop, ready, io.Discard, io.Discard)
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	must(t, err)
	response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/conf/greeting", ports[0].Local))
	must(t, err)
	text, err := io.ReadAll(response.Body)
	must(t, err)
	must(t, response.Body.Close())
	if string(text) != "hello" {
		t.Errorf("through the forwarded port came %q", text)
	}
	close(stop)
	must(t, <-ended)
}
