package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// deb is one package file: where it will be and what it hashes to.
type deb struct {
	name, file, sum string
}

// debianArchive knows the newest version of each package asked for and fetches
// files into a folder that is kept.
type debianArchive struct {
	cache string
	debs  map[string]deb
}

// openArchive asks apt for the packages. Where its lists are missing or too old
// they are updated, once.
func openArchive(cache string, packages []string) (*debianArchive, error) {
	cache, err := filepath.Abs(cache)
	if err != nil {
		return nil, fmt.Errorf("finding the cache folder: %w", err)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("making the cache folder: %w", err)
	}
	a := &debianArchive{cache: cache, debs: map[string]deb{}}
	err = a.ask(packages)
	if err == nil {
		err = a.fetch()
	}
	if err == nil {
		return a, nil
	}
	reason, _, _ := strings.Cut(err.Error(), "\n")
	fmt.Fprintln(os.Stderr, "images: updating apt's lists:", reason)
	if _, err := apt(a.cache, "update", "-qq"); err != nil {
		return nil, fmt.Errorf("updating apt's lists: %w", err)
	}
	if err := a.ask(packages); err != nil {
		return nil, err
	}
	return a, a.fetch()
}

// ask reads where each package is to be had.
func (a *debianArchive) ask(packages []string) error {
	// Not in the cache's folder: apt names only the files it does not find there.
	text, err := apt("/", append([]string{"download", "--print-uris"}, packages...)...)
	if err != nil {
		return fmt.Errorf("looking up packages (they are Debian 12's): %w", err)
	}
	clear(a.debs)
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		found, err := parseURI(line)
		if err != nil {
			return err
		}
		a.debs[found.name] = found
	}
	for _, name := range packages {
		if _, err := a.find(name); err != nil {
			return err
		}
	}
	return nil
}

// parseURI reads a line of apt's --print-uris: 'URL' FILE SIZE ALGORITHM:HASH.
func parseURI(line string) (deb, error) {
	fields := strings.Fields(line)
	if len(fields) != 4 {
		return deb{}, fmt.Errorf("reading apt's answer: %q", line)
	}
	name, _, found := strings.Cut(fields[1], "_")
	sum, isSHA256 := strings.CutPrefix(fields[3], "SHA256:")
	if !found || !isSHA256 {
		return deb{}, fmt.Errorf("reading apt's answer: %q", line)
	}
	return deb{name: name, file: fields[1], sum: sum}, nil
}

func (a *debianArchive) find(name string) (deb, error) {
	found, ok := a.debs[name]
	if !ok {
		return deb{}, fmt.Errorf("looking up package %s: apt does not know it", name)
	}
	return found, nil
}

// fetch downloads what the folder does not have; apt checks the signatures.
func (a *debianArchive) fetch() error {
	var missing []string
	for _, one := range a.debs {
		if !a.have(one) {
			missing = append(missing, one.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if _, err := apt(a.cache, append([]string{"download", "-qq"}, missing...)...); err != nil {
		return fmt.Errorf("downloading packages: %w", err)
	}
	for _, name := range missing {
		if !a.have(a.debs[name]) {
			return fmt.Errorf("downloading package %s: it is not what apt's lists say", name)
		}
	}
	return nil
}

func (a *debianArchive) have(one deb) bool {
	file, err := os.Open(filepath.Join(a.cache, one.file))
	if err != nil {
		return false
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return false
	}
	return hex.EncodeToString(hash.Sum(nil)) == one.sum
}

// unpack adds a package's files to a tree.
func (a *debianArchive) unpack(name string, files tree) error {
	one, err := a.find(name)
	if err != nil {
		return err
	}
	content, err := program(a.cache, "dpkg-deb", "--fsys-tarfile", filepath.Join(a.cache, one.file))
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	reader := tar.NewReader(strings.NewReader(content))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = files.add(header, reader)
		}
		if err != nil {
			return fmt.Errorf("unpacking %s: %w", name, err)
		}
	}
}

func apt(dir string, args ...string) (string, error) {
	// apt's own user may not write into our folder.
	return program(dir, "apt-get", append(args, "-o", "APT::Sandbox::User=root")...)
}

func program(dir, name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	command.Dir = dir
	var failure bytes.Buffer
	command.Stderr = &failure
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w: %s", name, args[0], err, strings.TrimSpace(failure.String()))
	}
	return string(text), nil
}
