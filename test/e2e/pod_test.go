package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestVolumesAndEnvironment: one Pod that reads everything it can be given.
func TestVolumesAndEnvironment(t *testing.T) {
	t.Parallel() // after the tests that change the node
	c := theCluster(t)
	ns := c.namespace(t)
	host := t.TempDir()
	must(t, os.WriteFile(filepath.Join(host, "from-host"), []byte("host\n"), 0o644))
	c.apply(t, ns, fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {level: debug, file.conf: "a=1\n"}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {token: s3cret}
---
apiVersion: v1
kind: Pod
metadata: {name: reader, labels: {app: reader}, annotations: {note: hello}}
spec:
  restartPolicy: Never
  volumes:
  - {name: host, hostPath: {path: %s, type: Directory}}
  - {name: made, hostPath: {path: %s/made, type: DirectoryOrCreate}}
  - {name: config, configMap: {name: settings, items: [{key: file.conf, path: sub/file.conf, mode: 0400}]}}
  - {name: secret, secret: {secretName: keys}}
  - {name: optional, configMap: {name: nowhere, optional: true}}
  - {name: info, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}, {path: cpu, resourceFieldRef: {containerName: app, resource: limits.cpu, divisor: 1m}}]}}
  - name: all
    projected:
      sources:
      - {serviceAccountToken: {path: token, audience: somebody, expirationSeconds: 600}}
      - {configMap: {name: settings}}
      - {secret: {name: keys}}
  containers:
  - name: app
    image: busybox:1.36
    resources: {limits: {cpu: 250m, memory: 64Mi}}
    envFrom: [{prefix: CFG_, configMapRef: {name: settings}}]
    env:
    - {name: LITERAL, value: plain}
    - {name: EXPANDED, value: "$(LITERAL)-$(CFG_level)-$$(LITERAL)"}
    - {name: FROM_MAP, valueFrom: {configMapKeyRef: {name: settings, key: level}}}
    - {name: FROM_SECRET, valueFrom: {secretKeyRef: {name: keys, key: token}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory}}}
    command: [sh, -c]
    args:
    - |
      echo "literal=$LITERAL expanded=$EXPANDED map=$FROM_MAP secret=$FROM_SECRET node=$NODE memory=$MEMORY prefix=$CFG_level"
      ip=$(hostname -i); [ "$ip" = "$POD_IP" ] && echo ip=same || echo ip=$ip/$POD_IP
      cat /host/from-host /config/sub/file.conf /secret/token; echo
      cat /info/labels; echo; cat /info/cpu; echo
      ls /all | tr '\n' ' '; ls /optional | wc -l
      echo x > /made/x && echo wrote-made; echo x > /host/x 2>/dev/null || echo host-read-only
      grep -c reader /etc/hosts
      stat -c %%a /config/sub/..data/sub/file.conf 2>/dev/null || stat -Lc %%a /config/sub/file.conf
      [ -s /var/run/secrets/kubernetes.io/serviceaccount/token ] && echo has-token
    volumeMounts:
    - {name: host, mountPath: /host, readOnly: true}
    - {name: made, mountPath: /made}
    - {name: config, mountPath: /config}
    - {name: secret, mountPath: /secret}
    - {name: optional, mountPath: /optional}
    - {name: info, mountPath: /info}
    - {name: all, mountPath: /all}
`, host, host))
	pod := c.pod(t, ns, "reader", "ended", ended)
	out := c.kubectl(t, "logs", "-n", ns, "reader")
	if pod.Status.Phase != v1.PodSucceeded {
		t.Fatalf("the Pod is %s:\n%s", pod.Status.Phase, out)
	}
	for _, want := range []string{
		"literal=plain expanded=plain-debug-$(LITERAL) map=debug secret=s3cret node=node-1 memory=67108864 prefix=debug",
		"ip=same", "host\na=1\ns3cret", `app="reader"`, "250", "file.conf level token 0",
		"wrote-made", "host-read-only", "400", "has-token",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the Pod's output lacks %q:\n%s", want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(host, "made/x")); err != nil {
		t.Errorf("the host does not see what the Pod wrote: %v", err)
	}
}

// TestAPodSpeaksToTheAPIServer: an in-cluster client finds the real address and
// is who its service account says.
func TestAPodSpeaksToTheAPIServer(t *testing.T) {
	t.Parallel() // after the tests that change the node
	c := theCluster(t)
	ns := c.namespace(t)
	c.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  restartPolicy: Never
  containers:
  - name: app
    image: python:3.11-slim-bookworm
    command: [python3, -c]
    args:
    - |
      import os, ssl, json, urllib.request
      home = '/var/run/secrets/kubernetes.io/serviceaccount/'
      url = 'https://%s:%s/apis/authentication.k8s.io/v1/selfsubjectreviews' % (os.environ['KUBERNETES_SERVICE_HOST'], os.environ['KUBERNETES_SERVICE_PORT'])
      body = json.dumps({'apiVersion': 'authentication.k8s.io/v1', 'kind': 'SelfSubjectReview'}).encode()
      request = urllib.request.Request(url, data=body, headers={'Authorization': 'Bearer ' + open(home + 'token').read(), 'Content-Type': 'application/json'})
      answer = urllib.request.urlopen(request, context=ssl.create_default_context(cafile=home + 'ca.crt'))
      print(json.load(answer)['status']['userInfo']['username'])
`)
	pod := c.pod(t, ns, "client", "ended", ended)
	out := c.kubectl(t, "logs", "-n", ns, "client")
	if pod.Status.Phase != v1.PodSucceeded || strings.TrimSpace(out) != "system:serviceaccount:"+ns+":default" {
		t.Fatalf("the Pod is %s and printed %q", pod.Status.Phase, out)
	}
}

// TestSecurityContext: user, groups, capabilities, read-only root, host namespaces, limits.
func TestSecurityContext(t *testing.T) {
	t.Parallel() // after the tests that change the node
	c := theCluster(t)
	ns := c.namespace(t)
	c.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec:
  restartPolicy: Never
  hostname: named
  securityContext: {runAsUser: 1234, runAsGroup: 2345, supplementalGroups: [3456]}
  containers:
  - name: app
    image: busybox:1.36
    resources: {limits: {memory: 32Mi}}
    securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    command: [sh, -c, "id; hostname; touch /x 2>/dev/null || echo read-only; grep CapEff /proc/self/status; grep NoNewPrivs /proc/self/status; cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; true"]
---
apiVersion: v1
kind: Pod
metadata: {name: host}
spec:
  restartPolicy: Never
  hostNetwork: true
  hostPID: true
  containers:
  - name: app
    image: busybox:1.36
    securityContext: {privileged: true}
    command: [sh, -c, "readlink /proc/self/ns/pid; readlink /proc/self/ns/net; grep CapEff /proc/self/status"]
---
apiVersion: v1
kind: Pod
metadata: {name: nonroot}
spec:
  restartPolicy: Never
  containers:
  - {name: app, image: "busybox:1.36", securityContext: {runAsNonRoot: true}, command: ["true"]}
`)
	c.pod(t, ns, "plain", "Succeeded", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodSucceeded })
	out := c.kubectl(t, "logs", "-n", ns, "plain")
	for _, want := range []string{"uid=1234 gid=2345", "3456", "named", "read-only", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "33554432"} {
		if !strings.Contains(out, want) {
			t.Errorf("the Pod's output lacks %q:\n%s", want, out)
		}
	}
	pod := c.pod(t, ns, "host", "Succeeded", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodSucceeded })
	processes, err := os.Readlink("/proc/self/ns/pid")
	must(t, err)
	network, err := os.Readlink("/proc/self/ns/net")
	must(t, err)
	if out := c.kubectl(t, "logs", "-n", ns, "host"); !strings.HasPrefix(out, processes+"\n"+network+"\n") {
		t.Errorf("the host Pod printed %q, want the host's process and network namespaces", out)
	}
	if pod.Status.PodIP != pod.Status.HostIP {
		t.Errorf("a host-network Pod has address %s, want the node's %s", pod.Status.PodIP, pod.Status.HostIP)
	}
	c.pod(t, ns, "nonroot", "refused as root", func(p *v1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == "CreateContainerConfigError"
	})
}

// TestProbes: startup gates, readiness shows and hides, liveness restarts.
func TestProbes(t *testing.T) {
	t.Parallel() // after the tests that change the node
	c := theCluster(t)
	ns := c.namespace(t)
	c.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: probed}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: www, emptyDir: {}}]
  containers:
  - name: web
    image: busybox:1.36
    command: [sh, -c, "touch /www/alive; exec httpd -f -p 8080 -h /www"]
    volumeMounts: [{name: www, mountPath: /www}]
    startupProbe: {tcpSocket: {port: 8080}, periodSeconds: 1, failureThreshold: 30}
    readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
    livenessProbe: {exec: {command: [cat, /www/alive]}, periodSeconds: 1, failureThreshold: 2}
`)
	c.pod(t, ns, "probed", "started and not ready", func(p *v1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].Started != nil && *p.Status.ContainerStatuses[0].Started && !p.Status.ContainerStatuses[0].Ready
	})
	c.kubectl(t, "exec", "-n", ns, "probed", "--", "touch", "/www/ready")
	c.pod(t, ns, "probed", "Ready", ready)
	c.kubectl(t, "exec", "-n", ns, "probed", "--", "rm", "/www/ready")
	c.pod(t, ns, "probed", "not Ready", func(p *v1.Pod) bool { return condition(p, v1.PodReady) == v1.ConditionFalse })
	c.kubectl(t, "exec", "-n", ns, "probed", "--", "rm", "/www/alive")
	c.pod(t, ns, "probed", "restarted", func(p *v1.Pod) bool {
		return p.Status.ContainerStatuses[0].RestartCount == 1 && p.Status.ContainerStatuses[0].State.Running != nil
	})
	if out := c.kubectl(t, "get", "events", "-n", ns); !strings.Contains(out, "Liveness probe failed") || !strings.Contains(out, "failed liveness probe, will be restarted") {
		t.Errorf("the events do not tell of the liveness probe:\n%s", out)
	}
}

// TestTermination: SIGTERM first, SIGKILL when the grace period is over.
func TestTermination(t *testing.T) {
	t.Parallel() // after the tests that change the node
	c := theCluster(t)
	ns := c.namespace(t)
	host := t.TempDir()
	c.apply(t, ns, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: polite}
spec:
  terminationGracePeriodSeconds: 30
  volumes: [{name: out, hostPath: {path: %s}}]
  containers:
  - name: app
    image: busybox:1.36
    command: [sh, -c, "trap 'echo said goodbye > /out/polite; exit 0' TERM; while :; do sleep 0.1; done"]
    volumeMounts: [{name: out, mountPath: /out}]
---
apiVersion: v1
kind: Pod
metadata: {name: deaf}
spec:
  terminationGracePeriodSeconds: 3
  containers:
  - {name: app, image: "busybox:1.36", command: [sh, -c, "trap '' TERM; while :; do sleep 1; done"]}
`, host))
	c.pod(t, ns, "polite", "Ready", ready)
	c.pod(t, ns, "deaf", "Ready", ready)
	begin := time.Now()
	c.kubectl(t, "delete", "pod", "polite", "-n", ns)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("a Pod that ends at SIGTERM took %v to go", took)
	}
	if _, err := os.Stat(filepath.Join(host, "polite")); err != nil {
		t.Errorf("the app saw no SIGTERM: %v", err)
	}
	begin = time.Now()
	c.kubectl(t, "delete", "pod", "deaf", "-n", ns)
	if took := time.Since(begin); took < 3*time.Second || took > 15*time.Second {
		t.Errorf("a Pod deaf to SIGTERM with 3 s of grace took %v to go", took)
	}
}

// TestLogsAndExec: everything kubectl logs and exec can ask, and where logs stand.
func TestLogsAndExec(t *testing.T) {
	t.Parallel() // after the tests that change the node
	c := theCluster(t)
	ns := c.namespace(t)
	c.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: talker}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: busybox:1.36
    command: [sh, -c, "for i in 1 2 3 4 5; do echo line $i; done; while [ ! -e /tmp/die ]; do sleep 0.1; done; exit 3"]
`)
	pod := c.pod(t, ns, "talker", "Ready", ready)
	if out := c.kubectl(t, "logs", "-n", ns, "talker", "--tail=2"); out != "line 4\nline 5\n" {
		t.Errorf("--tail=2 gives %q", out)
	}
	if out := c.kubectl(t, "logs", "-n", ns, "talker", "--limit-bytes=8"); out != "line 1\nl" {
		t.Errorf("--limit-bytes=8 gives %q", out)
	}
	if out := c.kubectl(t, "logs", "-n", ns, "talker", "--timestamps", "--tail=1"); !strings.HasPrefix(out, "20") || !strings.HasSuffix(out, "Z line 5\n") {
		t.Errorf("--timestamps gives %q", out)
	}
	if out := c.kubectl(t, "logs", "-n", ns, "talker", "--since=1h"); strings.Count(out, "\n") != 5 {
		t.Errorf("--since=1h gives %q", out)
	}
	if out, _, err := c.try(nil, "exec", "-n", ns, "talker", "--", "sh", "-c", "echo out; echo err >&2; exit 7"); err == nil || out != "out\n" {
		t.Errorf("exec gives %q and %v, want exit code 7", out, err)
	}
	input := "through stdin\n"
	if out, _, err := c.try(&input, "exec", "-i", "-n", ns, "talker", "--", "cat"); err != nil || out != input {
		t.Errorf("exec -i cat gives %q (%v)", out, err)
	}
	file := filepath.Join(c.logs, fmt.Sprintf("%s_%s_%s", ns, "talker", pod.UID), "app", "0.log")
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), " stdout F line 1\n") {
		t.Errorf("%s: %q, %v", file, text, err)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	link := filepath.Join(c.links, fmt.Sprintf("talker_%s_app-%s.log", ns, id))
	if text, err := os.ReadFile(link); err != nil || len(text) == 0 {
		t.Errorf("%s: %v", link, err)
	}
	c.kubectl(t, "exec", "-n", ns, "talker", "--", "touch", "/tmp/die")
	c.pod(t, ns, "talker", "restarted", func(p *v1.Pod) bool {
		s := p.Status.ContainerStatuses[0]
		return s.RestartCount == 1 && s.State.Running != nil && s.LastTerminationState.Terminated != nil && s.LastTerminationState.Terminated.ExitCode == 3
	})
	if out := c.kubectl(t, "logs", "-n", ns, "talker", "--previous"); strings.Count(out, "\n") != 5 {
		t.Errorf("--previous gives %q", out)
	}
	c.kubectl(t, "delete", "pod", "talker", "-n", ns)
	eventually(t, "the links and logs are gone after the Pod", func() bool {
		_, linkErr := os.Lstat(link)
		_, logErr := os.Lstat(file)
		return os.IsNotExist(linkErr) && os.IsNotExist(logErr)
	})
}

// TestHostPort: a port of the node reaches the Pod, and is free after it.
func TestHostPort(t *testing.T) {
	t.Parallel() // after the tests that change the node
	c := theCluster(t)
	ns := c.namespace(t)
	port, err := freePort()
	must(t, err)
	manifest := fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    image: busybox:1.36
    command: [sh, -c, "echo hello > /tmp/index.html; exec httpd -f -p 80 -h /tmp"]
    ports: [{containerPort: 80, hostPort: %d}]
    readinessProbe: {httpGet: {path: /, port: 80}, periodSeconds: 1}
`, port)
	for range 2 {
		c.apply(t, ns, manifest)
		pod := c.pod(t, ns, "web", "Ready", ready)
		answer, err := http.Get(fmt.Sprintf("http://%s:%d/", pod.Status.HostIP, port))
		if err != nil {
			t.Fatalf("the node's port does not reach the Pod: %v", err)
		}
		answer.Body.Close()
		c.kubectl(t, "delete", "pod", "web", "-n", ns)
	}
}
