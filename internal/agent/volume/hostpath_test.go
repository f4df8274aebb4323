package volume

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestHostPathTypes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	missing := filepath.Join(dir, "missing")
	for _, test := range []struct {
		path string
		kind v1.HostPathType
		want string
	}{
		{missing, v1.HostPathUnset, ""},
		{dir, v1.HostPathDirectory, ""},
		{missing, v1.HostPathDirectory, "hostPath type check failed, " + missing + " is not a directory, unable to determine its type: path \"" + missing + "\" does not exist"},
		{file, v1.HostPathDirectory, "hostPath type check failed: " + file + " is not a directory, it's a file"},
		{file, v1.HostPathDirectoryOrCreate, "hostPath type check failed: " + file + " is not a directory, it's a file"},
		{dir, v1.HostPathFileOrCreate, "hostPath type check failed: " + dir + " is not a file, it's a directory"},
		{file, v1.HostPathFile, ""},
		{socket, v1.HostPathSocket, ""},
		{file, v1.HostPathSocket, "hostPath type check failed: " + file + " is not a socket file, it's a file"},
		{"/dev/null", v1.HostPathCharDev, ""},
		{"/dev/null", v1.HostPathBlockDev, "hostPath type check failed: /dev/null is not a block device, it's a character device"},
		{dir, v1.HostPathType("Odd"), "Odd is an invalid volume type"},
	} {
		_, err := hostPath(&v1.HostPathVolumeSource{Path: test.path, Type: &test.kind})
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s as %s:\n got %s\nwant %s", test.path, test.kind, got, test.want)
		}
	}
}

func TestHostPathIsMadeWhereAskedFor(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		path string
		kind v1.HostPathType
		mode os.FileMode
	}{
		{"a/b", v1.HostPathDirectoryOrCreate, 0o755 | os.ModeDir},
		{"f", v1.HostPathFileOrCreate, 0o644},
	} {
		path := filepath.Join(dir, test.path)
		for range 2 {
			if _, err := hostPath(&v1.HostPathVolumeSource{Path: path, Type: &test.kind}); err != nil {
				t.Fatal(err)
			}
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != test.mode {
			t.Errorf("%s: %v, %v, want mode %v", path, info, err, test.mode)
		}
	}
	_, err := hostPath(&v1.HostPathVolumeSource{Path: filepath.Join(dir, "no/file"), Type: ptr.To(v1.HostPathFileOrCreate)})
	if err == nil || !strings.Contains(err.Error(), "no such file or directory") {
		t.Errorf("a file without its folder: %v", err)
	}
}
