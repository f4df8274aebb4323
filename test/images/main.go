// Command images builds the container images that the examples and tests use,
// from Debian's packages, as docker-archive files: for machines without a
// registry. It owns the images' contents and their reproducibility; it runs none
// of them, and what it does not package itself comes from Debian unchanged.
//
// Usage: go run ./test/images OUT_DIR
//
// An image is built again only when its recipe or one of its packages changed.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: images OUT_DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1], ".cache/debs"); err != nil {
		fmt.Fprintln(os.Stderr, "images: FAILED:", err)
		os.Exit(1)
	}
}

// run builds what is not up to date and ends with one line that sums it up.
func run(out, cache string) error {
	began := time.Now()
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("making the output folder: %w", err)
	}
	archive, err := openArchive(cache, packagesOf(recipes))
	if err != nil {
		return err
	}
	built, bytes := 0, int64(0)
	for _, recipe := range recipes {
		file := filepath.Join(out, recipe.file()+".tar")
		fresh, err := build(recipe, archive, file)
		if err != nil {
			return fmt.Errorf("building %s: %w", recipe.name, err)
		}
		if fresh {
			built++
		}
		info, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("building %s: %w", recipe.name, err)
		}
		bytes += info.Size()
	}
	fmt.Printf("images: ok: %d in %s (%d built, %d up to date), %d MB, %.1f s\n",
		len(recipes), out, built, len(recipes)-built, bytes>>20, time.Since(began).Seconds())
	return nil
}

// build makes one image unless the file is there and its key says that it was
// made of the same things. It says whether it built.
func build(recipe recipe, archive *debianArchive, file string) (bool, error) {
	key, err := recipe.key(archive)
	if err != nil {
		return false, err
	}
	keyFile := strings.TrimSuffix(file, ".tar") + ".key"
	if before, err := os.ReadFile(keyFile); err == nil && string(before) == key {
		if _, err := os.Stat(file); err == nil {
			return false, nil
		}
	}
	fmt.Fprintf(os.Stderr, "images: building %s\n", recipe.name)
	files, err := recipe.tree(archive)
	if err != nil {
		return false, err
	}
	if err := files.whole(); err != nil {
		return false, err
	}
	image, err := files.pack(recipe)
	if err != nil {
		return false, err
	}
	// The key last: a build that was cut short is not up to date.
	if err := os.WriteFile(file+".new", image, 0o644); err != nil {
		return false, fmt.Errorf("writing the image: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return false, fmt.Errorf("writing the image: %w", err)
	}
	if err := os.WriteFile(keyFile, []byte(key), 0o644); err != nil {
		return false, fmt.Errorf("writing the image's key: %w", err)
	}
	return true, nil
}
