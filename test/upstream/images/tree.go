package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// entry is one file, folder or link of a layer.
type entry struct {
	kind    byte // as in package tar
	mode    int64
	content []byte
	target  string
}

// tree is a layer's files by their names, without a leading slash.
type tree map[string]entry

func (t tree) put(name string, e entry) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, found := t[dir]; !found {
			t[dir] = entry{kind: tar.TypeDir, mode: 0o755}
		}
	}
	t[name] = e
}

func (t tree) dir(name string, mode int64) { t.put(name, entry{kind: tar.TypeDir, mode: mode}) }

func (t tree) file(name string, content []byte, mode int64) {
	t.put(name, entry{kind: tar.TypeReg, mode: mode, content: content})
}

func (t tree) link(name, target string) {
	t.put(name, entry{kind: tar.TypeSymlink, mode: 0o777, target: target})
}

var library = regexp.MustCompile(`/\S+\.so\S*`)

// linked takes a program of this machine with the libraries it is linked with.
func (t tree) linked(name string) error {
	where, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("finding %s (apt-get install bash curl netcat-openbsd): %w", name, err)
	}
	list, err := exec.Command("ldd", where).Output()
	if err != nil {
		return fmt.Errorf("listing the libraries of %s: %w", name, err)
	}
	for _, file := range append(library.FindAllString(string(list), -1), "/usr/bin/"+name) {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		t.file(strings.TrimPrefix(file, "/"), content, 0o755)
	}
	return nil
}

// tar writes the layer, always the same bytes for the same files.
func (t tree) tar(out io.Writer) error {
	writer := tar.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(t)) {
		e := t[name]
		header := &tar.Header{Name: name, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.content)),
			Linkname: e.target, ModTime: time.Unix(0, 0), Format: tar.FormatGNU}
		if err := writer.WriteHeader(header); err != nil {
			return fmt.Errorf("packing %s: %w", name, err)
		}
		if _, err := writer.Write(e.content); err != nil {
			return fmt.Errorf("packing %s: %w", name, err)
		}
	}
	return writer.Close()
}

// pack writes all images as `docker save` would; a layer that several share is
// there once.
func pack(out io.Writer, list []image) error {
	archive, manifest := tree{}, []any{}
	for _, one := range list {
		var ids, names []string
		for _, files := range one.layers {
			var layer bytes.Buffer
			if err := files.tar(&layer); err != nil {
				return err
			}
			id := sum(layer.Bytes())
			ids, names = append(ids, "sha256:"+id), append(names, id+"/layer.tar")
			archive.file(id+"/layer.tar", layer.Bytes(), 0o644)
		}
		text, err := json.Marshal(map[string]any{"architecture": runtime.GOARCH, "os": "linux", "config": one.config,
			"rootfs": map[string]any{"type": "layers", "diff_ids": ids}})
		if err != nil {
			return fmt.Errorf("describing %s: %w", one.names[0], err)
		}
		file := sum(text) + ".json"
		archive.file(file, text, 0o644)
		manifest = append(manifest, map[string]any{"Config": file, "RepoTags": one.names, "Layers": names})
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return fmt.Errorf("describing the images: %w", err)
	}
	archive.file("manifest.json", text, 0o644)
	return archive.tar(out)
}

func sum(content []byte) string {
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:])
}
