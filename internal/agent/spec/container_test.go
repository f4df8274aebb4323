package spec

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// testPod is a valid Pod of one container, with changes.
func testPod(changes ...func(*v1.Pod, *v1.Container)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "web:1"}}},
	}
	for _, change := range changes {
		change(pod, &pod.Spec.Containers[0])
	}
	return pod
}

func withEnv(from v1.EnvVarSource) func(*v1.Pod, *v1.Container) {
	return func(_ *v1.Pod, c *v1.Container) { c.Env = []v1.EnvVar{{Name: "X", ValueFrom: &from}} }
}

func withEnvFrom(from v1.EnvFromSource) func(*v1.Pod, *v1.Container) {
	return func(_ *v1.Pod, c *v1.Container) { c.EnvFrom = []v1.EnvFromSource{from} }
}

func withMount(mount v1.VolumeMount) func(*v1.Pod, *v1.Container) {
	return func(_ *v1.Pod, c *v1.Container) { c.VolumeMounts = []v1.VolumeMount{mount} }
}

func withSecurity(sc v1.SecurityContext) func(*v1.Pod, *v1.Container) {
	return func(_ *v1.Pod, c *v1.Container) { c.SecurityContext = &sc }
}

func named(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }

func TestConfigErrorsInKubernetesWords(t *testing.T) {
	nonRoot := v1.SecurityContext{RunAsNonRoot: ptr.To(true)}
	for name, test := range map[string]struct {
		pod  *v1.Pod
		user User
		want string
	}{
		"config map missing": {pod: testPod(withEnv(v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: named("gone"), Key: "k"}})),
			want: `configmaps "gone" not found`},
		"config map key missing": {pod: testPod(withEnv(v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: named("settings"), Key: "k"}})),
			want: "couldn't find key k in ConfigMap shop/settings"},
		"secret missing": {pod: testPod(withEnv(v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: named("gone"), Key: "k"}})),
			want: `secrets "gone" not found`},
		"secret key missing": {pod: testPod(withEnv(v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: named("login"), Key: "k"}})),
			want: "couldn't find key k in Secret shop/login"},
		"forbidden though optional": {pod: testPod(withEnvFrom(v1.EnvFromSource{SecretRef: &v1.SecretEnvSource{LocalObjectReference: named("hidden"), Optional: ptr.To(true)}})),
			want: `secrets "hidden" is forbidden: not yours`},
		"envFrom missing": {pod: testPod(withEnvFrom(v1.EnvFromSource{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: named("gone")}})),
			want: `configmaps "gone" not found`},
		"file missing": {pod: testPod(withEnv(v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: "none", Key: "K"}})),
			want: "couldn't parse env file: reading none: file does not exist"},
		"file key missing": {pod: testPod(withEnv(v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: "vars.env", Key: "K"}})),
			want: `environment variable key "K" not found in file "vars.env"`},
		"runAsUser 0": {pod: testPod(withSecurity(v1.SecurityContext{RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](0)})),
			want: `container's runAsUser breaks non-root policy (pod: "web_shop(u-1)", container: app)`},
		"image runs as root": {pod: testPod(withSecurity(nonRoot)),
			want: `container has runAsNonRoot and image will run as root (pod: "web_shop(u-1)", container: app)`},
		"image names its user": {pod: testPod(withSecurity(nonRoot)), user: User{Username: "www"},
			want: `container has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root (pod: "web_shop(u-1)", container: app)`},
		"no such volume": {pod: testPod(withMount(v1.VolumeMount{Name: "absent", MountPath: "/x"})),
			want: `cannot find volume "absent" to mount into container "app"`},
		"absolute sub-path": {pod: testPod(withMount(v1.VolumeMount{Name: "v", MountPath: "/x", SubPath: "/abs"})),
			want: "error SubPath `/abs` must not be an absolute path"},
		"sub-path climbs": {pod: testPod(withMount(v1.VolumeMount{Name: "v", MountPath: "/x", SubPath: "a/../../b"})),
			want: "unable to provision SubPath `a/../../b`: must not contain '..'"},
		"sub-path refused": {pod: testPod(withMount(v1.VolumeMount{Name: "v", MountPath: "/x", SubPath: "refused"})),
			want: `failed to prepare subPath for volumeMount "v" of container "app": not in the volume`},
		"unknown variable in sub-path": {pod: testPod(withMount(v1.VolumeMount{Name: "v", MountPath: "/x", SubPathExpr: "$(NOPE)"})),
			want: `missing value for "NOPE"`},
		"recursive read-only unsupported": {pod: testPod(withMount(v1.VolumeMount{Name: "v", MountPath: "/x", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyEnabled)})),
			want: `volume "v" requested recursive read-only mode, but it is not supported by the runtime`},
		"Localhost profile without a name": {pod: testPod(withSecurity(v1.SecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost}})),
			want: "localhostProfile must be set if seccompProfile type is Localhost"},
	} {
		t.Run(name, func(t *testing.T) {
			in := testInput(test.pod)
			in.ImageUser = test.user
			_, err := Container(in)
			var known *ConfigError
			if !errors.As(err, &known) || known.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
			if known != nil && known.Reason() != "CreateContainerConfigError" {
				t.Errorf("reason is %s", known.Reason())
			}
		})
	}
}

func TestOptionalReferencesAreLeftOut(t *testing.T) {
	yes := ptr.To(true)
	for name, from := range map[string]v1.EnvVarSource{
		"config map": {ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: named("gone"), Key: "k", Optional: yes}},
		"secret key": {SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: named("login"), Key: "k", Optional: yes}},
		"file":       {FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: "none", Key: "K", Optional: yes}},
	} {
		env, err := Env(testInput(testPod(withEnv(from))))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if value, set := envLookup(env)("X"); set {
			t.Errorf("%s: X is set to %q", name, value)
		}
	}
}

func TestTheLastLineOfAnEnvFileCounts(t *testing.T) {
	for key, want := range map[string]string{"PLAIN": "2", "QUOTED": "a b"} {
		env, err := Env(testInput(testPod(withEnv(v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{VolumeName: "v", Path: "vars.env", Key: key}}))))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := envLookup(env)("X"); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

func TestTheAPIServersAddressWinsOverTheService(t *testing.T) {
	in := testInput(testPod())
	in.Services = append(in.Services, v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "kubernetes"},
		Spec:       v1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: []v1.ServicePort{{Port: 443}}},
	})
	in.Node.APIHost = "2001:db8::1"
	for _, links := range []bool{true, false} {
		in.Pod.Spec.EnableServiceLinks = &links
		env, err := Env(in)
		if err != nil {
			t.Fatal(err)
		}
		lookup := envLookup(env)
		host, _ := lookup("KUBERNETES_SERVICE_HOST")
		address, _ := lookup("KUBERNETES_PORT")
		if host != "2001:db8::1" || address != "tcp://[2001:db8::1]:6443" {
			t.Errorf("links %v: host %q, address %q", links, host, address)
		}
		if _, set := lookup("CART_API_SERVICE_HOST"); set != links {
			t.Errorf("links %v: the Service cart-api is there: %v", links, set)
		}
	}
}

func TestAnOwnHostsFileIsNotMountedOver(t *testing.T) {
	config, err := Container(testInput(testPod(withMount(v1.VolumeMount{Name: "v", MountPath: "/etc/hosts"}))))
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Mounts) != 1 || config.Mounts[0].HostPath != "/pods/v" {
		t.Errorf("mounts are %v", config.Mounts)
	}
}

func TestSandboxRefusesWhatItCannotHonour(t *testing.T) {
	for want, change := range map[string]func(*v1.Pod, *v1.Container){
		"spec.hostUsers":      func(p *v1.Pod, _ *v1.Container) { p.Spec.HostUsers = ptr.To(false) },
		"spec.resourceClaims": func(p *v1.Pod, _ *v1.Container) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}} },
		"FQDN": func(p *v1.Pod, _ *v1.Container) {
			p.Spec.SetHostnameAsFQDN = ptr.To(true)
			p.Spec.Subdomain = strings.Repeat("x", 60)
		},
	} {
		if _, err := Sandbox(PodInput{Pod: testPod(change), Node: testNode()}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about %s", err, want)
		}
	}
}

func TestHostnames(t *testing.T) {
	for _, test := range []struct {
		change       func(*v1.Pod, *v1.Container)
		name, domain string
	}{
		{func(*v1.Pod, *v1.Container) {}, "web", ""},
		{func(p *v1.Pod, _ *v1.Container) { p.Spec.Hostname = "own" }, "own", ""},
		{func(p *v1.Pod, _ *v1.Container) { p.Spec.Subdomain = "sub" }, "web", "sub.shop.svc.cluster.local"},
		{func(p *v1.Pod, _ *v1.Container) { p.Spec.HostNetwork = true }, "node-a.example", ""},
		{func(p *v1.Pod, _ *v1.Container) { p.Spec.HostnameOverride = ptr.To("over.ride") }, "over.ride", ""},
		{func(p *v1.Pod, _ *v1.Container) { p.Name = strings.Repeat("a", 62) + "-b" }, strings.Repeat("a", 62), ""},
	} {
		name, domain := Hostname(testPod(test.change), testNode())
		if name != test.name || domain != test.domain {
			t.Errorf("got %q, %q; want %q, %q", name, domain, test.name, test.domain)
		}
	}
}

func withResources(requests, limits string) func(*v1.Pod, *v1.Container) {
	list := func(memory string) v1.ResourceList {
		if memory == "" {
			return nil
		}
		return v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory), v1.ResourceCPU: resource.MustParse("1")}
	}
	return func(_ *v1.Pod, c *v1.Container) {
		c.Resources = v1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
	}
}

func TestOOMScoreAndCgroupFollowTheClassOfService(t *testing.T) {
	for _, test := range []struct {
		requests, limits string
		adjust           int64
		cgroup           string
	}{
		{"", "", 1000, "/muster/besteffort/podu-1"},
		{"1Gi", "1Gi", -997, "/muster/podu-1"},
		{"2Gi", "", 750, "/muster/burstable/podu-1"},
		{"1Mi", "", 999, "/muster/burstable/podu-1"},
		{"8Gi", "", 3, "/muster/burstable/podu-1"},
	} {
		pod := testPod(withResources(test.requests, test.limits))
		adjust := OOMScoreAdjust(pod, &pod.Spec.Containers[0], testNode().MemoryCapacity)
		if cgroup := CgroupParent(pod, testNode()); adjust != test.adjust || cgroup != test.cgroup {
			t.Errorf("requests %q, limits %q: got %d in %s, want %d in %s", test.requests, test.limits, adjust, cgroup, test.adjust, test.cgroup)
		}
	}
}

func TestASidecarIsNotKilledBeforeTheApp(t *testing.T) {
	pod := testPod(withResources("2Gi", ""), func(p *v1.Pod, _ *v1.Container) {
		p.Spec.InitContainers = []v1.Container{{Name: "proxy", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)}}
	})
	if got := OOMScoreAdjust(pod, &pod.Spec.InitContainers[0], 8<<30); got != 750 {
		t.Errorf("the sidecar has %d, want the app's 750", got)
	}
}

func TestSystemdSlices(t *testing.T) {
	node := testNode()
	node.SystemdCgroups = true
	if got := CgroupParent(testPod(), node); got != "muster-besteffort-podu_1.slice" {
		t.Errorf("got %s", got)
	}
}

func TestCPU(t *testing.T) {
	for milli, want := range map[int64][2]int64{0: {2, 0}, 1: {2, 1000}, 250: {256, 25_000}, 2000: {2048, 200_000}} {
		if got := [2]int64{shares(milli), quota(milli)}; got != want {
			t.Errorf("%dm: shares and quota are %v, want %v", milli, got, want)
		}
	}
}

func TestClusterDNS(t *testing.T) {
	node := testNode()
	node.ClusterDNS = []string{"10.96.0.10"}
	config := dnsConfig(testPod(), node)
	if got := strings.Join(config.Searches, " "); got != "shop.svc.cluster.local svc.cluster.local cluster.local example" {
		t.Errorf("searches are %s", got)
	}
	if config.Servers[0] != "10.96.0.10" || config.Options[0] != "ndots:5" || DNSFallback(testPod(), node) != "" {
		t.Errorf("got %v, fallback %q", config, DNSFallback(testPod(), node))
	}
	many := testPod(func(p *v1.Pod, _ *v1.Container) {
		p.Spec.DNSConfig = &v1.PodDNSConfig{Nameservers: []string{"10.96.0.10", "b", "c", "d"}}
	})
	if got := dnsConfig(many, node).Servers; len(got) != 3 || got[2] != "c" {
		t.Errorf("servers are %v, want the first three different ones", got)
	}
}
