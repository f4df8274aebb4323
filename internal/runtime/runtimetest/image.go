package runtimetest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
)

const (
	// PauseImage is the sandbox image, ProgImage the one for containers. The
	// program of both is runtimetest/prog, at /prog, which is also the entry point.
	PauseImage = "muster.test/pause:1"
	ProgImage  = "muster.test/prog:1"
	// UserImage is the same run as user 1234, NamedImage as user "nobody".
	UserImage  = "muster.test/user:1"
	NamedImage = "muster.test/named:1"
)

// BuildProg compiles the test program into dir and returns its path.
func BuildProg(dir string) (string, error) {
	path := filepath.Join(dir, "prog")
	build := exec.Command("go", "build", "-o", path, "-ldflags=-s -w", "muster.dev/muster/internal/runtime/runtimetest/prog")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the test program: %w: %s", err, out)
	}
	return path, nil
}

// WriteImage packs one program as an image archive that "ctr images import" and
// "docker load" read, under the given names; user may be empty. Images with other
// names have other IDs, as containerd shows a container's image by the first name
// of its ID.
func WriteImage(archive, program, user string, names ...string) error {
	layer, err := layerOf(program)
	if err != nil {
		return err
	}
	config, err := configOf(layer, user, names...)
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": digest(config) + ".json", "RepoTags": names, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return fmt.Errorf("encoding image manifest: %w", err)
	}
	var out bytes.Buffer
	err = writeTar(&out,
		file{digest(config) + ".json", 0o644, config},
		file{"layer.tar", 0o644, layer},
		file{"manifest.json", 0o644, manifest})
	if err != nil {
		return err
	}
	return os.WriteFile(archive, out.Bytes(), 0o644)
}

// configOf is an image's configuration; the names in it make its ID its own.
func configOf(layer []byte, user string, names ...string) ([]byte, error) {
	config, err := json.Marshal(map[string]any{
		"architecture": goruntime.GOARCH,
		"os":           "linux",
		"config": map[string]any{
			"Entrypoint": []string{"/prog"},
			"User":       user,
			"Env":        []string{"PATH=/"},
			"Labels":     map[string]string{"names": strings.Join(names, " ")},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding image configuration: %w", err)
	}
	return config, nil
}

func layerOf(program string) ([]byte, error) {
	binary, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	err = writeTar(&layer,
		file{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/prog\nnobody:x:65534:65534:nobody:/:/prog\n")},
		file{"etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n")},
		file{"prog", 0o755, binary})
	return layer.Bytes(), err
}

type file struct {
	name    string
	mode    int64
	content []byte
}

func writeTar(out *bytes.Buffer, files ...file) error {
	w := tar.NewWriter(out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg}); err != nil {
			return fmt.Errorf("packing %s: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return fmt.Errorf("packing %s: %w", f.name, err)
		}
	}
	return w.Close()
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
