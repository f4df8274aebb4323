package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// image is one image under all its names, its layers from the bottom up.
type image struct {
	names  []string
	layers []tree
	config config
}

// config is what an image says of how it runs, in the image format's words.
type config struct {
	Env        []string `json:",omitempty"`
	Entrypoint []string `json:",omitempty"`
	Cmd        []string `json:",omitempty"`
	User       string   `json:",omitempty"`
}

// parts are the layers that images share.
type parts struct {
	shell, tools, agnhost, nonewprivs, pause tree
}

const (
	registry   = "registry.k8s.io/e2e-test-images/"
	kubernetes = "k8s.io/kubernetes/test/images/"
)

// images lists what the suite names in test/utils/image of its module.
func images(p parts) []image {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	agnhost := []tree{p.shell, p.tools, p.agnhost}
	return []image{
		{[]string{registry + "agnhost:2.66.1", registry + "agnhost:2.55"}, agnhost,
			config{Env: env, Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}}},
		{[]string{registry + "busybox:1.37.0-2", registry + "busybox:1.36.1-1"}, []tree{p.shell},
			config{Env: env, Cmd: []string{"sh"}}},
		// Any server on port 80 will do for what the specs ask of it.
		{[]string{registry + "nginx:1.27.0-2", registry + "nginx:1.28.0-2"}, agnhost,
			config{Env: env, Entrypoint: []string{"/agnhost"}, Cmd: []string{"test-webserver"}}},
		{[]string{registry + "nonroot:1.5"}, []tree{p.shell}, config{Env: env, Cmd: []string{"sh"}, User: "1234"}},
		{[]string{registry + "nonewprivs:1.4"}, []tree{p.shell, p.nonewprivs}, config{Env: env, Cmd: []string{"nnp"}}},
		{[]string{"registry.k8s.io/pause:3.10.2"}, []tree{p.pause}, config{Entrypoint: []string{"/pause"}, User: "65535:65535"}},
	}
}

// layers builds every layer; programs are compiled into dir.
func layers(dir string) (parts, error) {
	p := parts{shell: tree{}, tools: tree{}, agnhost: tree{}, nonewprivs: tree{}, pause: tree{}}
	if err := shell(p.shell); err != nil {
		return parts{}, err
	}
	for _, name := range []string{"curl", "nc.openbsd"} {
		if err := p.tools.linked(name); err != nil {
			return parts{}, err
		}
	}
	p.tools.link("usr/local/bin/nc", "/usr/bin/nc.openbsd") // before busybox's, which has no UDP
	if err := agnhost(p.agnhost, dir); err != nil {
		return parts{}, err
	}
	nnp, err := program(dir, kubernetes+"nonewprivs")
	if err != nil {
		return parts{}, err
	}
	p.nonewprivs.file("usr/local/bin/nnp", nnp, 0o4755)
	pause, err := program(dir, "./images/pause")
	if err != nil {
		return parts{}, err
	}
	p.pause.file("pause", pause, 0o755)
	return p, nil
}

// shell is busybox under all its names and the accounts the suite knows. /bin/sh is
// busybox's, whose words the suite knows; the sh that a search finds first is bash,
// since Debian's busybox does not pass on variables whose names are not a shell's.
func shell(files tree) error {
	where, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("finding busybox (apt-get install busybox-static): %w", err)
	}
	content, err := os.ReadFile(where)
	if err != nil {
		return err
	}
	list, err := exec.Command(where, "--list").Output()
	if err != nil {
		return fmt.Errorf("listing busybox's applets: %w", err)
	}
	files.file("bin/busybox", content, 0o755)
	for _, name := range strings.Fields(string(list)) {
		if name != "busybox" {
			files.link("bin/"+name, "busybox")
		}
	}
	if err := files.linked("bash"); err != nil {
		return err
	}
	files.link("bin/bash", "/usr/bin/bash")
	files.link("usr/local/bin/sh", "/usr/bin/bash")
	for name, mode := range map[string]int64{"tmp": 0o1777, "root": 0o700, "proc": 0o755, "sys": 0o755, "dev": 0o755, "run": 0o755, "home": 0o755} {
		files.dir(name, mode)
	}
	files.file("etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"+
		"user-defined-in-image:x:1000:1000::/:/bin/sh\n"), 0o644)
	files.file("etc/group", []byte("root:x:0:\nnogroup:x:65534:\nuser-defined-in-image:x:1000:\n"+
		"group-defined-in-image:x:50000:user-defined-in-image\n"), 0o644)
	files.file("etc/nsswitch.conf", []byte("passwd: files\ngroup: files\nhosts: files dns\n"), 0o644)
	return nil
}

// agnhost is the suite's program of many servers and clients.
func agnhost(files tree, dir string) error {
	content, err := program(dir, kubernetes+"agnhost")
	if err != nil {
		return err
	}
	files.file("agnhost", content, 0o755)
	files.link("agnhost-2", "agnhost")
	files.dir("uploads", 0o755)
	where, err := exec.Command("go", "list", "-f", "{{.Dir}}", kubernetes+"agnhost/porter").Output()
	if err != nil {
		return fmt.Errorf("finding porter's certificate: %w", err)
	}
	for _, name := range []string{"localhost.crt", "localhost.key"} {
		content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(where)), name))
		if err != nil {
			return err
		}
		files.file(name, content, 0o644)
	}
	return nil
}
