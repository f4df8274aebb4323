package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"
)

// entry is one file, folder or link of an image.
type entry struct {
	kind    byte // as in package tar
	mode    int64
	content []byte
	target  string // of links
	owner   [2]int // user and group ID
}

// tree is an image's files by their names, without a leading slash. What ends up
// in the image depends on the tree alone: no times, no order of arrival.
type tree map[string]entry

// newTree has the folders every image has. /bin, /sbin and /lib are links into
// /usr, as on Debian itself.
func newTree() tree {
	files := tree{}
	for name, mode := range map[string]int64{"etc": 0o755, "root": 0o700, "tmp": 0o1777, "var/tmp": 0o1777,
		"proc": 0o755, "sys": 0o755, "dev": 0o755, "run": 0o755, "usr/bin": 0o755, "usr/sbin": 0o755, "usr/lib": 0o755, "usr/lib64": 0o755} {
		files.dir(name, mode)
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		files[name] = entry{kind: tar.TypeSymlink, mode: 0o777, target: "usr/" + name}
	}
	return files
}

func (t tree) has(name string) bool { _, found := t[name]; return found }

// parents makes the folders above a name.
func (t tree) parents(name string) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if !t.has(dir) {
			t[dir] = entry{kind: tar.TypeDir, mode: 0o755}
		}
	}
}

func (t tree) put(name string, e entry) {
	name = merged(name)
	t.parents(name)
	t[name] = e
}

func (t tree) dir(name string, mode int64) { t.put(name, entry{kind: tar.TypeDir, mode: mode}) }

func (t tree) file(name string, content []byte, mode int64) {
	t.put(name, entry{kind: tar.TypeReg, mode: mode, content: content})
}

func (t tree) link(name, target string) {
	t.put(name, entry{kind: tar.TypeSymlink, mode: 0o777, target: target})
}

// merged is a name's place after /bin, /sbin and /lib have gone into /usr.
func merged(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains([]string{"bin", "sbin", "lib", "lib64"}, first) {
		return "usr/" + name
	}
	return name
}

// add takes one file of a package. Documentation is left out, licences stay.
func (t tree) add(header *tar.Header, content io.Reader) error {
	name := merged(header.Name)
	if name == "" || unwanted(name) {
		return nil
	}
	e := entry{kind: header.Typeflag, mode: header.Mode & 0o7777, target: header.Linkname, owner: [2]int{header.Uid, header.Gid}}
	switch header.Typeflag {
	case tar.TypeDir:
		if t.has(name) {
			return nil
		}
	case tar.TypeReg:
		var err error
		if e.content, err = io.ReadAll(content); err != nil {
			return err
		}
	case tar.TypeLink:
		e.target = merged(header.Linkname)
	case tar.TypeSymlink:
	default:
		return fmt.Errorf("adding %s: a file of kind %q", name, header.Typeflag)
	}
	t.put(name, e)
	return nil
}

func unwanted(name string) bool {
	if strings.HasPrefix(name, "usr/share/doc/") {
		return path.Base(name) != "copyright"
	}
	for _, dir := range []string{"usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian",
		"usr/share/bug", "usr/share/menu", "usr/share/doc-base", "usr/share/initramfs-tools", "usr/lib/systemd",
		"etc/init.d", "etc/logrotate.d", "etc/logcheck", "etc/apparmor.d"} {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

// whole checks that every program and library finds the libraries it is linked
// with: a package forgotten in a recipe shows here, not in a running Pod.
func (t tree) whole() error {
	libraries := map[string]bool{}
	for name := range t {
		libraries[path.Base(name)] = true
	}
	var missing []error
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if !bytes.HasPrefix(t[name].content, []byte(elf.ELFMAG)) {
			continue
		}
		program, err := elf.NewFile(bytes.NewReader(t[name].content))
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		needs, err := program.ImportedLibraries()
		if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		for _, library := range needs {
			if !libraries[library] {
				missing = append(missing, fmt.Errorf("%s needs %s, which no package of the recipe has", name, library))
			}
		}
	}
	return errors.Join(missing...)
}

// pack writes the tree as an image of one layer, as `docker save` would.
func (t tree) pack(r recipe) ([]byte, error) {
	layer, err := t.layer()
	if err != nil {
		return nil, err
	}
	configText, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": r.config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + sum(layer)}},
	})
	if err != nil {
		return nil, fmt.Errorf("describing the image: %w", err)
	}
	config, layerName := sum(configText)+".json", sum(layer)+"/layer.tar"
	list, err := json.Marshal([]any{map[string]any{"Config": config, "RepoTags": []string{r.name}, "Layers": []string{layerName}}})
	if err != nil {
		return nil, fmt.Errorf("describing the image: %w", err)
	}
	return tree{
		config:          {kind: tar.TypeReg, mode: 0o644, content: configText},
		layerName:       {kind: tar.TypeReg, mode: 0o644, content: layer},
		"manifest.json": {kind: tar.TypeReg, mode: 0o644, content: list},
	}.layer()
}

func sum(content []byte) string {
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:])
}

// layer writes the tree as a tar, hard links after what they point to.
func (t tree) layer() ([]byte, error) {
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	names := slices.SortedFunc(maps.Keys(t), func(a, b string) int {
		if first := rank(t[a]) - rank(t[b]); first != 0 {
			return first
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		e := t[name]
		header := &tar.Header{Name: name, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.content)), Linkname: e.target,
			Uid: e.owner[0], Gid: e.owner[1], ModTime: time.Unix(0, 0), Format: tar.FormatGNU}
		if err := writer.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("packing %s: %w", name, err)
		}
		if _, err := writer.Write(e.content); err != nil {
			return nil, fmt.Errorf("packing %s: %w", name, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("packing: %w", err)
	}
	return out.Bytes(), nil
}

func rank(e entry) int {
	if e.kind == tar.TypeLink {
		return 1
	}
	return 0
}
