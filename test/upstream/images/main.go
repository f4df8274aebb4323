// Command images builds the container images that Kubernetes' end-to-end suite
// asks for by name, as one docker-archive file: for machines without a registry.
// The suite's own programs come from its module; shell, curl and their libraries
// from this machine's Debian packages. It owns the images' contents; it neither
// imports nor runs them.
//
// Usage, in its module's folder: go run ./images OUT_FILE
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: images OUT_FILE")
		os.Exit(2)
	}
	began := time.Now()
	count, err := build(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "images: FAILED:", err)
		os.Exit(1)
	}
	fmt.Printf("images: ok: %d in %s, %.1f s\n", count, os.Args[1], time.Since(began).Seconds())
}

// build writes the archive and says how many images it holds.
func build(out string) (int, error) {
	dir, err := os.MkdirTemp("", "upstream-images-")
	if err != nil {
		return 0, fmt.Errorf("making a folder for programs: %w", err)
	}
	defer os.RemoveAll(dir)
	parts, err := layers(dir)
	if err != nil {
		return 0, err
	}
	list := images(parts)
	file, err := os.Create(out + ".new")
	if err != nil {
		return 0, fmt.Errorf("making the archive: %w", err)
	}
	defer file.Close()
	if err := pack(file, list); err != nil {
		return 0, err
	}
	if err := file.Close(); err != nil {
		return 0, fmt.Errorf("writing the archive: %w", err)
	}
	return len(list), os.Rename(out+".new", out)
}

// program compiles a package of this module or of one it requires.
func program(dir, pkg string) ([]byte, error) {
	out := filepath.Join(dir, filepath.Base(pkg))
	command := exec.Command("go", "build", "-ldflags", "-s -w", "-o", out, pkg)
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("compiling %s: %w", pkg, err)
	}
	return os.ReadFile(out)
}
