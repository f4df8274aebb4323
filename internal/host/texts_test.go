package host

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestContainerdConfiguration(t *testing.T) {
	settings := containerdSettings{layout: newLayout("/d"), major: 1, snapshotter: "overlayfs", runc: "/usr/sbin/runc", cniBin: "/opt/cni/bin", restrictOOM: true}
	for _, test := range []struct {
		name   string
		change func(*containerdSettings)
		has    []string
		hasNot []string
	}{
		{name: "containerd 1", change: func(*containerdSettings) {}, has: []string{
			"version = 2", `root = "/d/containerd/root"`, `address = "/d/containerd/containerd.sock"`,
			`sandbox_image = "muster.dev/pause:1"`, `conf_dir = "/d/cni/net.d"`, "restrict_oom_score_adj = true",
			"SystemdCgroup = false", `stream_server_address = "127.0.0.1"`}, hasNot: []string{"cri.v1"}},
		{name: "containerd 2", change: func(s *containerdSettings) { s.major = 2 }, has: []string{
			"version = 3", `plugins."io.containerd.cri.v1.images".pinned_images`, `sandbox = "muster.dev/pause:1"`,
			`plugins."io.containerd.cri.v1.runtime".cni`, `stream_server_address = "127.0.0.1"`}, hasNot: []string{"sandbox_image"}},
		{name: "systemd and all capabilities", change: func(s *containerdSettings) { s.systemdCgroup, s.restrictOOM = true, false },
			has: []string{"SystemdCgroup = true", "restrict_oom_score_adj = false"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := settings
			test.change(&s)
			text := renderContainerd(s)
			for _, part := range test.has {
				if !strings.Contains(text, part) {
					t.Errorf("no %s in\n%s", part, text)
				}
			}
			for _, part := range test.hasNot {
				if strings.Contains(text, part) {
					t.Errorf("%s in\n%s", part, text)
				}
			}
		})
	}
}

func TestNetworkConfiguration(t *testing.T) {
	text, err := renderNetwork(newLayout("/d"), Options{PodCIDR: netip.MustParsePrefix("10.9.8.0/24")})
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Name    string
		Plugins []struct {
			Type   string
			IPMasq bool
			IPAM   struct {
				DataDir string
				Ranges  [][]struct{ Subnet, Gateway string }
			}
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	bridge := list.Plugins[0]
	if list.Name != newLayout("/d").network || bridge.Type != "bridge" || !bridge.IPMasq || list.Plugins[1].Type != "portmap" ||
		bridge.IPAM.DataDir != "/d/cni/addresses" || bridge.IPAM.Ranges[0][0].Subnet != "10.9.8.0/24" || bridge.IPAM.Ranges[0][0].Gateway != "10.9.8.1" {
		t.Errorf("%s", text)
	}
}

func TestLayoutsDoNotMeet(t *testing.T) {
	one, other := newLayout("/var/lib/muster"), newLayout("/var/lib/muster2")
	if one.bridge == other.bridge || one.network == other.network || one.cgroupBase == other.cgroupBase {
		t.Errorf("%+v and %+v share a name", one, other)
	}
	if len(one.bridge) > 15 {
		t.Errorf("interface name %s is too long for the kernel", one.bridge)
	}
}

// A link on the way must not give the same folder two names, and so two bridges.
func TestRealPath(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link, want := filepath.Join(base, "link"), filepath.Join(base, "real", "data")
	if err := os.Mkdir(filepath.Join(base, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"before it exists", "when it exists"} {
		if got, err := realPath(filepath.Join(link, "data")); err != nil || got != want {
			t.Errorf("%s: %q (%v), want %q", step, got, err, want)
		}
		if err := os.MkdirAll(want, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// natTable is what the plugins leave in the nat table for a Pod with a hostPort.
const natTable = `*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:CNI-DN-aaa - [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
:CNI-HOSTPORT-MASQ - [0:0]
:CNI-HOSTPORT-SETMARK - [0:0]
:CNI-bbb - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A POSTROUTING -s 10.9.8.5/32 -m comment --comment "name: \"ours\" id: \"one\"" -j CNI-bbb
-A CNI-DN-aaa -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.9.8.5:80
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"ours\" id: \"one\"" -m multiport --dports 80 -j CNI-DN-aaa
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A CNI-bbb -d 10.9.8.0/24 -m comment --comment "name: \"ours\" id: \"one\"" -j ACCEPT
-A CNI-bbb ! -d 224.0.0.0/4 -m comment --comment "name: \"ours\" id: \"one\"" -j MASQUERADE
COMMIT
`

func TestStaleRules(t *testing.T) {
	stale := func(ids ...string) func(string) bool {
		return func(id string) bool { return slices.Contains(ids, id) }
	}
	for _, test := range []struct {
		name    string
		rules   string
		network string
		stale   func(string) bool
		want    string
	}{
		{name: "an owner that lives keeps everything", rules: natTable, network: "ours", stale: stale("two")},
		{name: "another network is not ours", rules: natTable, network: "theirs", stale: stale("one")},
		{name: "nothing there", rules: "*nat\nCOMMIT\n", network: "ours", stale: stale("one")},
		{name: "a stale owner's rules and chains", rules: natTable, network: "ours", stale: stale("one"), want: `*nat
-D POSTROUTING -s 10.9.8.5/32 -m comment --comment "name: \"ours\" id: \"one\"" -j CNI-bbb
-D CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"ours\" id: \"one\"" -m multiport --dports 80 -j CNI-DN-aaa
-F CNI-DN-aaa
-F CNI-bbb
-X CNI-DN-aaa
-X CNI-bbb
COMMIT
`},
		{name: "a chain to which the way is gone already", network: "ours", stale: stale("one"),
			rules: `*nat
:CNI-bbb - [0:0]
-A CNI-bbb -d 10.9.8.0/24 -m comment --comment "name: \"ours\" id: \"one\"" -j ACCEPT
-A CNI-bbb ! -d 224.0.0.0/4 -m comment --comment "name: \"ours\" id: \"one\"" -j MASQUERADE
COMMIT
`, want: `*nat
-F CNI-bbb
-X CNI-bbb
COMMIT
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := staleRules(test.rules, test.network, test.stale); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestUnusedSharedRules(t *testing.T) {
	if got := unusedSharedRules(natTable); got != "" {
		t.Errorf("chains that a hostPort uses go:\n%s", got)
	}
	const unused = `*nat
:CNI-HOSTPORT-DNAT - [0:0]
:CNI-HOSTPORT-MASQ - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
COMMIT
`
	const want = `*nat
-D PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-F CNI-HOSTPORT-DNAT
-F CNI-HOSTPORT-MASQ
-X CNI-HOSTPORT-DNAT
-X CNI-HOSTPORT-MASQ
COMMIT
`
	if got := unusedSharedRules(unused); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestParseMounts(t *testing.T) {
	const text = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:27 / /d/with\040blank/merged rw - overlay overlay rw,lowerdir=/a
31 22 0:28 / /dd/x rw - tmpfs tmpfs rw
32 22 0:29 / /sys/fs/cgroup/cpu rw master:2 - cgroup cgroup rw,cpu
`
	mounts := parseMounts(text)
	if len(mounts) != 4 || mounts[1].target != "/d/with blank/merged" || mounts[3].superOptions != "rw,cpu" || mounts[3].fsType != "cgroup" ||
		!mounts[0].shared || mounts[1].shared {
		t.Errorf("%+v", mounts)
	}
	if found := below(mounts, "/d"); len(found) != 1 || found[0].fsType != "overlay" {
		t.Errorf("below /d: %+v", found)
	}
}

func TestAttachmentOwner(t *testing.T) {
	const ours = `{"containerId":"one","result":{"interfaces":[{"name":"br"},{"name":"eth0","sandbox":"/d/containerd/state/x/netns/n"}]}}`
	if owner, mine := attachmentOwner([]byte(ours), "/d/containerd/state"); owner != "one" || !mine {
		t.Errorf("%q, %t", owner, mine)
	}
	for _, text := range []string{"", "{}", strings.ReplaceAll(ours, "/d/", "/dd/")} {
		if _, mine := attachmentOwner([]byte(text), "/d/containerd/state"); mine {
			t.Errorf("%q passes for ours", text)
		}
	}
}
