package volume

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// resolved makes a Pod with one emptyDir, "work", and its Resolver.
func resolved(t *testing.T) (*Resolver, string) {
	t.Helper()
	m, _ := newManager(t)
	pod := newPod(v1.Volume{Name: "work", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
	mounts := mustPrepare(t, m, pod)
	return m.Resolver(t.Context(), pod, mounts), mounts["work"].HostPath
}

func TestSubPathIsMadeLikeItsVolume(t *testing.T) {
	r, dir := resolved(t)
	path, err := r.SubPath("work", "a/b", "app", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, made := range []string{"a", "a/b"} {
		info, err := os.Stat(filepath.Join(dir, made))
		if err != nil {
			t.Fatal(err)
		}
		if !info.IsDir() || info.Mode().Perm() != 0o777 {
			t.Errorf("%s is %v, want a folder with mode 0777", made, info.Mode())
		}
	}
	if err := os.WriteFile(filepath.Join(path, "x"), []byte("in"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, filepath.Join(dir, "a/b/x")); got != "in" {
		t.Errorf("what is written below the sub-path shows as %q in the volume", got)
	}
}

func TestSubPathOfAFileFollowsItsReplacement(t *testing.T) {
	needRoot(t)
	r, dir := resolved(t)
	for _, content := range []string{"first", "second"} {
		next := filepath.Join(dir, "next")
		if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "file")); err != nil {
			t.Fatal(err)
		}
		path, err := r.SubPath("work", "file", "app", 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := mustRead(t, path); got != content {
			t.Errorf("the sub-path shows %q, want %q", got, content)
		}
	}
}

func TestSubPathNeverLeavesTheVolume(t *testing.T) {
	r, dir := resolved(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"absolute": secret, "climbing": "../../../../../../../../../../" + secret, "folder": filepath.Dir(secret)} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		path, err := r.SubPath("work", name, "app", 0)
		if err != nil {
			continue // refusing is as good
		}
		if content, err := os.ReadFile(path); err == nil && string(content) == "outside" {
			t.Errorf("%s leads out of the volume", name)
		}
		if _, err := os.Stat(filepath.Join(path, "secret")); err == nil {
			t.Errorf("%s leads out of the volume", name)
		}
	}
}

func TestRemoveUndoesSubPathsAndKeepsTheirSource(t *testing.T) {
	needRoot(t)
	m, _ := newManager(t)
	host := t.TempDir()
	kept := filepath.Join(host, "sub", "kept")
	if err := os.MkdirAll(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	pod := newPod(v1.Volume{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: host}}})
	r := m.Resolver(t.Context(), pod, mustPrepare(t, m, pod))
	if _, err := r.SubPath("host", "sub", "app", 0); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove(t.Context(), pod.UID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("removing the Pod touched the host's folder: %v", err)
	}
	if left, err := m.Known(); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
