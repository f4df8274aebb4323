package host

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/distribution/reference"
)

// Media types of what an image is made of (OCI image specification).
const (
	mediaManifest  = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig    = "application/vnd.oci.image.config.v1+json"
	mediaLayer     = "application/vnd.oci.image.layer.v1.tar"
	mediaLayerGzip = mediaLayer + "+gzip"
	mediaLayerZstd = mediaLayer + "+zstd"
)

// descriptor points at a blob, as the OCI image specification writes it.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType,omitempty"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

// blob is content to store: either bytes at hand or a section of the archive.
type blob struct {
	descriptor
	open func() io.Reader
}

// image is one image of an archive, ready to be stored.
type image struct {
	names    []string // as the runtime files them, e.g. docker.io/library/busybox:1.36
	manifest blob
	blobs    []blob // configuration first, then layers in order
}

// readArchive lists the images of a `docker save` archive or of an OCI layout in
// a tar file. Blobs are read from the file later, when they are stored, so that
// an archive never has to fit in memory.
func readArchive(file io.ReaderAt, size int64) ([]image, error) {
	entries, err := indexArchive(file, size)
	if err != nil {
		return nil, err
	}
	if _, docker := entries["manifest.json"]; docker {
		return readDocker(entries)
	}
	if _, oci := entries["index.json"]; oci {
		return readOCI(entries)
	}
	return nil, errors.New("reading the image archive: it has neither manifest.json nor index.json; " +
		"make one with `docker save` or `skopeo copy … docker-archive:FILE`")
}

// entries are an archive's files by their cleaned names.
type entries map[string]*io.SectionReader

func indexArchive(file io.ReaderAt, size int64) (entries, error) {
	whole := io.NewSectionReader(file, 0, size)
	found := entries{}
	links := map[string]string{}
	reader := tar.NewReader(whole)
	for {
		header, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the image archive: %w", err)
		}
		name := path.Clean(header.Name)
		switch header.Typeflag {
		case tar.TypeReg:
			// The tar reader has consumed exactly the header: the content is next.
			offset, err := whole.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, fmt.Errorf("reading the image archive: %w", err)
			}
			found[name] = io.NewSectionReader(file, offset, header.Size)
		case tar.TypeSymlink: // older `docker save` links equal layers
			links[name] = path.Join(path.Dir(name), header.Linkname)
		}
	}
	for name, target := range links {
		if content, ok := found[target]; ok {
			found[name] = content
		}
	}
	return found, nil
}

func (e entries) json(name string, into any) error {
	content, ok := e[name]
	if !ok {
		return fmt.Errorf("reading the image archive: %s is missing", name)
	}
	if err := json.NewDecoder(io.NewSectionReader(content, 0, content.Size())).Decode(into); err != nil {
		return fmt.Errorf("reading %s of the image archive: %w", name, err)
	}
	return nil
}

// blob describes a file of the archive, working out its digest.
func (e entries) blob(name, mediaType string) (blob, error) {
	content, ok := e[name]
	if !ok {
		return blob{}, fmt.Errorf("reading the image archive: %s is missing", name)
	}
	open := func() io.Reader { return io.NewSectionReader(content, 0, content.Size()) }
	hash := sha256.New()
	if _, err := io.Copy(hash, open()); err != nil {
		return blob{}, fmt.Errorf("reading %s of the image archive: %w", name, err)
	}
	digest := "sha256:" + hex.EncodeToString(hash.Sum(nil))
	return blob{descriptor: descriptor{MediaType: mediaType, Digest: digest, Size: content.Size()}, open: open}, nil
}

// readDocker reads what `docker save` writes: manifest.json names the files.
func readDocker(files entries) ([]image, error) {
	var list []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := files.json("manifest.json", &list); err != nil {
		return nil, err
	}
	var images []image
	for _, item := range list {
		config, err := files.blob(path.Clean(item.Config), mediaConfig)
		if err != nil {
			return nil, err
		}
		blobs := []blob{config}
		for _, name := range item.Layers {
			layer, err := files.layer(path.Clean(name))
			if err != nil {
				return nil, err
			}
			blobs = append(blobs, layer)
		}
		built, err := assemble(item.RepoTags, blobs)
		if err != nil {
			return nil, err
		}
		images = append(images, built)
	}
	return images, nil
}

// layer describes a layer; archives do not say how theirs are compressed.
func (e entries) layer(name string) (blob, error) {
	media := mediaLayer
	if content, ok := e[name]; ok {
		magic := make([]byte, 4)
		if _, err := content.ReadAt(magic, 0); err == nil {
			switch {
			case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
				media = mediaLayerGzip
			case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
				media = mediaLayerZstd
			}
		}
	}
	return e.blob(name, media)
}

// assemble writes the manifest over a configuration and its layers.
func assemble(tags []string, blobs []blob) (image, error) {
	made := manifest{SchemaVersion: 2, MediaType: mediaManifest, Config: blobs[0].descriptor, Layers: []descriptor{}}
	for _, layer := range blobs[1:] {
		made.Layers = append(made.Layers, layer.descriptor)
	}
	text, err := json.Marshal(made)
	if err != nil {
		return image{}, fmt.Errorf("writing an image manifest: %w", err)
	}
	names, err := fullNames(tags)
	if err != nil {
		return image{}, err
	}
	return image{names: names, manifest: bytesBlob(mediaManifest, text), blobs: blobs}, nil
}

func bytesBlob(mediaType string, content []byte) blob {
	sum := sha256.Sum256(content)
	return blob{
		descriptor: descriptor{MediaType: mediaType, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(content))},
		open:       func() io.Reader { return bytes.NewReader(content) },
	}
}

// fullNames turns the short names people write into those the runtime files
// images under: busybox is docker.io/library/busybox:latest.
func fullNames(tags []string) ([]string, error) {
	var names []string
	for _, tag := range tags {
		named, err := reference.ParseDockerRef(tag)
		if err != nil {
			return nil, fmt.Errorf("reading the image name %q: %w", tag, err)
		}
		names = append(names, named.String())
	}
	if len(names) == 0 {
		return nil, errors.New("reading the image archive: an image in it has no name; save it by name, not by ID")
	}
	return names, nil
}

// readArchiveFile is readArchive for a file by path. The caller closes the file
// after the images have been stored.
func readArchiveFile(name string) (*os.File, []image, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the image archive: %w", err)
	}
	info, err := file.Stat()
	if err == nil {
		var images []image
		if images, err = readArchive(file, info.Size()); err == nil {
			return file, images, nil
		}
	}
	return nil, nil, errors.Join(fmt.Errorf("reading %s: %w", name, err), file.Close())
}
