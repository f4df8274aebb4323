package agent

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
	"muster.dev/muster/internal/runtime/fake"
)

func TestKeysForAnImage(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("ann:pa:ss"))
	secret := &v1.Secret{Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{
		"https://index.docker.io/v1/": {"auth": "` + auth + `"},
		"registry.test:5000": {"username": "bob", "password": "b"},
		"registry.test:5000/team": {"username": "team", "password": "t"},
		"registry.test": {"username": "noport", "password": "n"}}}`)}}
	for image, want := range map[string][]string{
		"busybox":                         {"ann:pa:ss"},
		"docker.io/library/busybox:1":     {"ann:pa:ss"},
		"registry.test:5000/app:1":        {"bob:b"},
		"registry.test:5000/team/app:1":   {"team:t", "bob:b"},
		"registry.test:5000/teammate/app": {"bob:b"},
		"registry.test/app":               {"noport:n"},
		"elsewhere.test/app":              nil,
	} {
		keys, err := keysFor(secret, image)
		if err != nil {
			t.Errorf("%s: %v", image, err)
		}
		var got []string
		for _, key := range keys {
			got = append(got, key.Username+":"+key.Password)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: keys %v, want %v", image, got, want)
		}
	}
	secret.Data[v1.DockerConfigJsonKey] = []byte("not JSON")
	if _, err := keysFor(secret, "busybox"); err == nil {
		t.Error("a broken secret is no error")
	}
}

func TestLogLinks(t *testing.T) {
	dir := t.TempDir()
	links := logLinks{pods: filepath.Join(dir, "pods"), containers: filepath.Join(dir, "containers")}
	pod, successor := testPod(apps("main")), testPod(apps("main"))
	successor.Name = pod.Name
	for _, p := range []*v1.Pod{pod, successor} {
		if err := os.MkdirAll(filepath.Dir(links.log(p, "main", 0)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(links.log(p, "main", 0), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(links.containers, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, add := range []func() error{
		func() error { return links.add(pod, "main", 0, "id-1") },
		func() error { return links.add(pod, "main", 0, "id-1") },
		func() error { return links.add(successor, "main", 0, "id-2") },
		func() error { return links.removeAll(pod) },
		func() error { return links.removeAll(pod) },
	} {
		if err := add(); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(links.containers)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != pod.Name+"_default_main-id-2.log" {
		t.Errorf("links left: %v", entries)
	}
	if text, err := os.ReadFile(filepath.Join(links.containers, entries[0].Name())); err != nil || string(text) != "x" {
		t.Errorf("the successor's log: %q, %v", text, err)
	}
}

func TestLogMessageIsTheEndOfTheLog(t *testing.T) {
	var log strings.Builder
	for i := range 200 {
		fmt.Fprintf(&log, "2030-01-02T03:04:05.6Z stdout F line %d\n", i)
	}
	log.WriteString("2030-01-02T03:04:05.6Z stderr P cut \n2030-01-02T03:04:05.6Z stderr F in two\n")
	got := logMessage([]byte(log.String()))
	if !strings.HasSuffix(got, "line 199\ncut in two\n") || strings.Contains(got, "line 119\n") || !strings.Contains(got, "line 130\n") {
		t.Errorf("message %q", got)
	}
	long := logMessage([]byte("2030-01-02T03:04:05.6Z stdout F " + strings.Repeat("é", 3000) + "\n"))
	if len(long) > logMessageBytes || !strings.HasPrefix(long, "é") {
		t.Errorf("a long line became %d bytes, beginning %q", len(long), long[:4])
	}
}

func TestMessageOfAFailedContainerComesFromItsLog(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		n.script = func(fake.Start) fake.Run {
			return fake.Run{Ends: true, After: time.Second, ExitCode: 2, Output: []string{"no such key"}}
		}
		defer n.start(t)()
		pod := testPod(apps("main"), never, func(p *v1.Pod) {
			p.Spec.Containers[0].TerminationMessagePolicy = v1.TerminationMessageFallbackToLogsOnError
		})
		n.api.create(t, pod)
		got := n.await(t, pod, time.Minute, "Failed", inPhase(v1.PodFailed))
		if s := got.Status.ContainerStatuses[0].State.Terminated; s == nil || s.Message != "no such key\n" {
			t.Errorf("terminated %+v", s)
		}
	})
}

// The hook and the signal share the grace period; a hook that fails keeps nothing.
func TestPreStopHookSharesTheGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		var ran []string
		n.runtime.SetScript(fake.Script{
			Container: func(fake.Start) fake.Run { return fake.Run{Stubborn: true} },
			Exec: func(_ *cri.ContainerConfig, command []string) fake.Exec {
				ran = append(ran, strings.Join(command, " "))
				return fake.Exec{Takes: 6 * time.Second, Result: runtime.ExecResult{ExitCode: 1}}
			},
		})
		defer n.start(t)()
		pod := testPod(apps("main"), func(p *v1.Pod) {
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"say", "bye"}}}}
		})
		n.api.create(t, pod)
		n.await(t, pod, time.Minute, "Ready", ready)
		n.api.delete(t, pod, 10)
		began := time.Now()
		n.await(t, pod, time.Minute, "gone", isGone)
		if took := time.Since(began); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("with 10 s of grace ending took %v", took)
		}
		if !slices.Equal(ran, []string{"say bye"}) {
			t.Errorf("hooks run: %q", ran)
		}
	})
}

func TestFailedPostStartHookEndsItsContainer(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		var mu sync.Mutex
		hooks := 0
		n.runtime.SetScript(fake.Script{Container: n.started, Exec: func(*cri.ContainerConfig, []string) fake.Exec {
			mu.Lock()
			defer mu.Unlock()
			if hooks++; hooks == 1 {
				return fake.Exec{Failure: errors.New("no such command")}
			}
			return fake.Exec{Takes: 10 * time.Minute} // as long as it likes
		}})
		defer n.start(t)()
		pod := testPod(apps("main"), func(p *v1.Pod) {
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"hello"}}}}
		})
		n.api.create(t, pod)
		n.await(t, pod, time.Minute, "Ready in its second run", func(p *v1.Pod) bool {
			return ready(p) && p.Status.ContainerStatuses[0].RestartCount == 1
		})
		n.awaitEvent(t, pod, "FailedPostStartHook")
	})
}

func TestHTTPHook(t *testing.T) {
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + " " + r.Header.Get("X-Word")
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	address := server.Listener.Addr().(*net.TCPAddr)
	host := address.IP.String()
	container := testContainer("main")
	container.Ports = []v1.ContainerPort{{Name: "web", ContainerPort: int32(address.Port)}}
	get := &v1.HTTPGetAction{Path: "bye", Port: intstr.FromString("web"), HTTPHeaders: []v1.HTTPHeader{{Name: "X-Word", Value: "w"}}}
	if err := httpHook(t.Context(), get, &container, []string{host}); err != nil {
		t.Error(err)
	}
	if got := <-asked; got != "/bye w" {
		t.Errorf("asked for %q", got)
	}
	get.Path = "/broken"
	if err := httpHook(t.Context(), get, &container, []string{host}); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("a broken hook: %v", err)
	}
	get.Port = intstr.FromString("nosuch")
	if err := httpHook(t.Context(), get, &container, []string{host}); err == nil {
		t.Error("a port that does not exist is no error")
	}
}

// awaitEvent waits for an event about the Pod.
func (n *testNode) awaitEvent(t *testing.T, pod *v1.Pod, reason string) {
	t.Helper()
	var seen []string
	for range 100 {
		list, err := n.api.CoreV1().Events(pod.Namespace).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		seen = nil
		for _, e := range list.Items {
			if e.InvolvedObject.UID == pod.UID {
				seen = append(seen, e.Reason)
			}
		}
		if slices.Contains(seen, reason) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("no event %s about pod %s, only %v", reason, pod.Name, seen)
}
