package up

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestBadSettingsAreRefusedByName(t *testing.T) {
	for name, row := range map[string]struct {
		config Config
		says   string
	}{
		"no port":      {Config{NodeName: "a", Listen: "10.0.0.1"}, "--listen :6443"},
		"empty":        {Config{NodeName: "a"}, "--listen :6443"},
		"loopback":     {Config{NodeName: "a", Listen: "127.0.0.1:6443"}, "Pods cannot reach a loopback address"},
		"loopback six": {Config{NodeName: "a", Listen: "[::1]:6443"}, "Pods cannot reach a loopback address"},
		"a name":       {Config{NodeName: "a", Listen: "localhost:6443"}, "not an IP address"},
		"node name":    {Config{NodeName: "A_b", Listen: ":6443"}, "--node-name"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := row.config.withDefaults(); err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want %q in it", err, row.says)
			}
		})
	}
}

func TestTheAddressAskedForIsTheNodesOwn(t *testing.T) {
	gateway := netip.MustParseAddr("10.244.0.1")
	if got := (Config{Listen: "10.0.0.7:6443"}).address(gateway); !got.Equal(net.IPv4(10, 0, 0, 7)) {
		t.Errorf("got %v, want the address asked for", got)
	}
	if got := (Config{Listen: ":6443"}).address(gateway); got == nil || got.IsUnspecified() || got.IsLoopback() {
		t.Errorf("got %v, want an address Pods can reach", got)
	}
}

func TestSettingsAreFoundByTheDirectoryAlone(t *testing.T) {
	kept := Config{DataDir: t.TempDir(), NodeName: "a", Listen: ":6443", AgentPort: 1, PodLogsDir: "/elsewhere", PodCIDR: netip.MustParsePrefix("10.9.0.0/24")}
	if err := kept.save(); err != nil {
		t.Fatal(err)
	}
	got, err := saved(kept.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	if got.PodLogsDir != kept.PodLogsDir || got.PodCIDR != kept.PodCIDR || got.DataDir != kept.DataDir {
		t.Errorf("got %+v, want %+v", got, kept)
	}
	none, err := saved(t.TempDir())
	if err != nil || none.PodLogsDir != "" {
		t.Errorf("a directory without settings gives %+v, %v", none, err)
	}
}

// TestDamagedSettingsDoNotKeepACluster: a cluster whose settings were cut off can
// be taken down all the same.
func TestDamagedSettingsDoNotKeepACluster(t *testing.T) {
	for _, text := range []string{"", `{"Data`, `{"PodLogsDir": 7, "AgentPort": 3}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, settingsFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := saved(dir)
		if !errors.Is(err, errDamaged) || !reflect.DeepEqual(config, Config{DataDir: dir}) {
			t.Errorf("%q gives %+v, %v", text, config, err)
		}
	}
}
