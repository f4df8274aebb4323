package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"muster.dev/muster/internal/host/pause"
)

// recipe is one image: Debian packages and a few files of our own.
type recipe struct {
	name     string
	packages []string
	links    map[string]string // path -> target
	files    map[string]string // path -> content
	config   config
	// extra adds what only a program can say.
	extra func(tree) error
}

// config is what an image says of how it runs, in the image format's words.
type config struct {
	Env        []string `json:",omitempty"`
	Entrypoint []string `json:",omitempty"`
	Cmd        []string `json:",omitempty"`
	User       string   `json:",omitempty"`
	WorkingDir string   `json:",omitempty"`
}

// revision is raised when this program builds the same recipe differently.
const revision = 1

// The files every image with users needs.
var accounts = map[string]string{
	"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
	"/etc/group":  "root:x:0:\nadm:x:4:\ntty:x:5:\nnogroup:x:65534:\n",
	// Without it the C library may not look at /etc/hosts first.
	"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

var shell = []string{"dash", "bash", "coreutils", "sed", "grep", "findutils", "libtinfo6",
	"libacl1", "libattr1", "libselinux1", "libpcre2-8-0", "libgmp10"}

// What nearly every program is linked with.
var base = []string{"base-files", "libc6", "libgcc-s1", "zlib1g"}

var recipes = []recipe{
	{
		// Stands in for the official image: the same version, from Debian 12.
		name: "python:3.11-slim-bookworm",
		packages: slices.Concat(base, shell, []string{"python3.11", "python3.11-minimal", "libpython3.11-minimal",
			"libpython3.11-stdlib", "libexpat1", "libssl3", "libbz2-1.0", "libcrypt1", "libdb5.3", "libffi8",
			"liblzma5", "libncursesw6", "libnsl2", "libreadline8", "libsqlite3-0", "libtirpc3", "libuuid1",
			"libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libkrb5support0", "libcom-err2", "libkeyutils1",
			"media-types", "netbase"}),
		links:  map[string]string{"/usr/local/bin/python3": "/usr/bin/python3.11", "/usr/local/bin/python": "python3"},
		files:  accounts,
		config: config{Env: []string{searchPath, "LANG=C.UTF-8"}, Cmd: []string{"python3"}},
	},
	{
		// Debian 12 has 1.35; the examples name the version people know.
		name: "busybox:1.36", packages: []string{"busybox-static"}, files: accounts, extra: applets,
		config: config{Env: []string{searchPath}, Cmd: []string{"sh"}},
	},
	{
		name:     "quay.io/prometheus/node-exporter:v1.5.0",
		packages: slices.Concat(base, []string{"prometheus-node-exporter"}),
		links:    map[string]string{"/usr/bin/node_exporter": "prometheus-node-exporter"},
		files:    accounts,
		config:   config{Env: []string{searchPath}, Entrypoint: []string{"/bin/node_exporter"}, User: "65534"},
	},
	{
		name: "muster.dev/examples/rsyslog:8.2302.0",
		packages: slices.Concat(base, []string{"rsyslog", "libestr0", "libfastjson4", "liblognorm5", "libsystemd0",
			"libuuid1", "libzstd1", "liblz4-1", "liblzma5", "libcap2", "libgcrypt20", "libgpg-error0",
			"libpcre2-8-0", "busybox-static"}),
		files: accounts, extra: applets,
		config: config{Env: []string{searchPath}, Entrypoint: []string{"/usr/sbin/rsyslogd"}, Cmd: []string{"-n"}},
	},
	{
		name: "registry.k8s.io/pause:3.9", config: config{Entrypoint: []string{"/pause"}, User: "65535:65535"},
		extra: func(files tree) error {
			program, err := pause.Program(runtime.GOARCH)
			files.file("/pause", program, 0o755)
			return err
		},
	},
}

// file is the image's name as a file's name.
func (r recipe) file() string {
	return strings.NewReplacer("/", "_", ":", "_").Replace(r.name)
}

func packagesOf(all []recipe) []string {
	var names []string
	for _, r := range all {
		names = append(names, r.packages...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// key changes whenever the image would: with the recipe, a package or this
// program's way of building.
func (r recipe) key(archive *debianArchive) (string, error) {
	what := []any{revision, runtime.GOARCH, r.name, r.links, r.files, r.config}
	for _, name := range r.packages {
		deb, err := archive.find(name)
		if err != nil {
			return "", err
		}
		what = append(what, deb.sum)
	}
	text, err := json.Marshal(what)
	if err != nil {
		return "", fmt.Errorf("describing the image: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]) + "\n", nil
}

// tree puts an image's files together.
func (r recipe) tree(archive *debianArchive) (tree, error) {
	files := newTree()
	for _, name := range r.packages {
		if err := archive.unpack(name, files); err != nil {
			return nil, err
		}
	}
	for name, content := range r.files {
		files.file(name, []byte(content), 0o644)
	}
	for name, target := range r.links {
		files.link(name, target)
	}
	if r.extra != nil {
		if err := r.extra(files); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// applets gives busybox every name it answers to, where no other program has it.
// It asks busybox itself, which therefore has to run here.
func applets(files tree) error {
	dir, err := os.MkdirTemp("", "busybox-")
	if err != nil {
		return fmt.Errorf("listing busybox's applets: %w", err)
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "busybox")
	if err := os.WriteFile(program, files["usr/bin/busybox"].content, 0o755); err != nil {
		return fmt.Errorf("listing busybox's applets: %w", err)
	}
	list, err := exec.Command(program, "--list").Output()
	if err != nil {
		return fmt.Errorf("listing busybox's applets: %w", err)
	}
	for _, name := range strings.Fields(string(list)) {
		if !files.has("usr/bin/"+name) && !files.has("usr/sbin/"+name) {
			files.link("/usr/bin/"+name, "busybox")
		}
	}
	return nil
}
