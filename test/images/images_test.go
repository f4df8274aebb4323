package main

import (
	"archive/tar"
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestParseURI(t *testing.T) {
	got, err := parseURI(`'http://deb.debian.org/pool/d/dash/dash_0.5.12-2_amd64.deb' dash_0.5.12-2_amd64.deb 91848 SHA256:33ea`)
	if want := (deb{name: "dash", file: "dash_0.5.12-2_amd64.deb", sum: "33ea"}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, wrong := range []string{"", "'u' f 1", "'u' a_1.deb 1 MD5Sum:00", "'u' nounderscore 1 SHA256:00"} {
		if _, err := parseURI(wrong); err == nil {
			t.Errorf("%q was read", wrong)
		}
	}
}

func TestTreeMergesIntoUsr(t *testing.T) {
	files := newTree()
	for _, header := range []*tar.Header{
		{Name: "./bin/sh", Typeflag: tar.TypeSymlink, Linkname: "dash"},
		{Name: "./lib/x86_64-linux-gnu/libz.so.1", Typeflag: tar.TypeReg},
		{Name: "./usr/share/doc/dash/changelog.gz", Typeflag: tar.TypeReg},
		{Name: "./usr/share/doc/dash/copyright", Typeflag: tar.TypeReg},
		{Name: "./tmp", Typeflag: tar.TypeDir, Mode: 0o755},
	} {
		if err := files.add(header, strings.NewReader("")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"usr/bin/sh", "usr/lib/x86_64-linux-gnu", "usr/share/doc/dash/copyright"} {
		if !files.has(name) {
			t.Errorf("%s is missing", name)
		}
	}
	if files.has("usr/share/doc/dash/changelog.gz") || files["bin"].kind != tar.TypeSymlink || files["tmp"].mode != 0o1777 {
		t.Errorf("changelog kept, /bin no link or /tmp closed: %+v", files)
	}
}

func TestPackDependsOnContentAlone(t *testing.T) {
	pack := func(names ...string) []byte {
		files := newTree()
		for _, name := range names {
			files.file(name, []byte(name), 0o644)
		}
		image, err := files.pack(recipe{name: "a:1"})
		if err != nil {
			t.Fatal(err)
		}
		return image
	}
	if !bytes.Equal(pack("/a", "/b/c"), pack("/b/c", "/a")) {
		t.Error("the order of arrival shows in the image")
	}
	if bytes.Equal(pack("/a"), pack("/b")) {
		t.Error("different files give the same image")
	}
}

func TestHardLinksComeAfterWhatTheyPointTo(t *testing.T) {
	files := newTree()
	files.file("/usr/bin/z", []byte("z"), 0o755)
	files.put("/usr/bin/a", entry{kind: tar.TypeLink, target: "usr/bin/z"})
	layer, err := files.layer()
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for reader := tar.NewReader(bytes.NewReader(layer)); ; {
		header, err := reader.Next()
		if err != nil {
			break
		}
		order = append(order, header.Name)
	}
	if slices.Index(order, "usr/bin/a") < slices.Index(order, "usr/bin/z") {
		t.Errorf("order %q", order)
	}
}

func TestAMissingLibraryIsFound(t *testing.T) {
	program, err := os.ReadFile("/bin/ls")
	if err != nil {
		t.Skip("needs a program that is linked with libraries: ", err)
	}
	files := newTree()
	files.file("/bin/ls", program, 0o755)
	if err := files.whole(); err == nil || !strings.Contains(err.Error(), "usr/bin/ls needs libc.so") {
		t.Errorf("a program without its C library passes: %v", err)
	}
}

func TestKeyFollowsPackagesAndRecipe(t *testing.T) {
	archive := &debianArchive{cache: t.TempDir(), debs: map[string]deb{"p": {name: "p", sum: "1"}}}
	key := func(r recipe) string {
		text, err := r.key(archive)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	one := recipe{name: "a:1", packages: []string{"p"}}
	before := key(one)
	if again := key(one); again != before {
		t.Error("the same recipe has two keys")
	}
	one.links = map[string]string{"/a": "b"}
	withLink := key(one)
	archive.debs["p"] = deb{name: "p", sum: "2"}
	if withLink == before || key(one) == withLink {
		t.Error("a change of recipe or package leaves the key as it was")
	}
	if _, err := (recipe{packages: []string{"gone"}}).key(archive); err == nil {
		t.Error("a package nobody knows has a key")
	}
}
