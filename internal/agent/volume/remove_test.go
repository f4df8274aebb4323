package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/mount-utils"
)

func TestRemoveNeverDeletesAcrossAMount(t *testing.T) {
	m, _ := newManager(t)
	dir := m.dir("u-1", "empty-dir", "busy")
	precious := filepath.Join(dir, "precious")
	if err := os.MkdirAll(precious, 0o700); err != nil {
		t.Fatal(err)
	}
	stuck := mount.NewFakeMounter([]mount.MountPoint{{Path: dir}})
	stuck.UnmountFunc = func(string) error { return errors.New("target is busy") }
	real := m.mounter
	m.mounter = stuck
	err := m.Remove(t.Context(), "u-1")
	if err == nil || !strings.Contains(err.Error(), "target is busy") {
		t.Errorf("got %v, want that the target is busy", err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("what is mounted was touched: %v", err)
	}
	m.mounter = real
	if err := m.Remove(t.Context(), "u-1"); err != nil {
		t.Error(err)
	}
	if err := m.Remove(t.Context(), "u-1"); err != nil {
		t.Errorf("a second Remove: %v", err)
	}
}

func TestRemoveRefusesWhatIsNoUID(t *testing.T) {
	m, _ := newManager(t)
	for _, uid := range []types.UID{"", ".", "..", "a/b", "../x"} {
		if err := m.Remove(t.Context(), uid); err == nil {
			t.Errorf("Remove(%q) did not refuse", uid)
		}
	}
}

func TestSecretsStayInMemory(t *testing.T) {
	needRoot(t)
	secret := &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "login"}, Data: map[string][]byte{"k": []byte("v")}}
	m, _ := newManager(t, secret)
	pod := newPod(v1.Volume{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "login"}}})
	dir := mustPrepare(t, m, pod)["s"].HostPath
	if mounted, err := m.mounter.IsMountPoint(dir); err != nil || !mounted {
		t.Errorf("mounted %v, %v; want a tmpfs", mounted, err)
	}
	if got := mustRead(t, filepath.Join(dir, "k")); got != "v" {
		t.Errorf("k is %q", got)
	}
}

func TestKnownListsPodsOnDisk(t *testing.T) {
	m, _ := newManager(t)
	if known, err := m.Known(); err != nil || len(known) != 0 {
		t.Errorf("before anything: %v, %v", known, err)
	}
	if _, err := m.WriteHosts("u-2", []byte("127.0.0.1\tlocalhost\n")); err != nil {
		t.Fatal(err)
	}
	if known, err := m.Known(); err != nil || len(known) != 1 || known[0] != "u-2" {
		t.Errorf("got %v, %v", known, err)
	}
}

func TestTerminationFileIsEmptyAndOpenToAll(t *testing.T) {
	m, _ := newManager(t)
	for range 2 { // the second time over the words of the first
		path, err := m.TerminationFile("u-1", "app", 3)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o666 || info.Size() != 0 {
			t.Errorf("%s is %v with %d bytes", path, info.Mode(), info.Size())
		}
		if err := os.WriteFile(path, []byte("last words"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
