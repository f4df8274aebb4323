package host

import (
	"fmt"
	"strings"
)

// readOCI reads an OCI image layout: index.json names manifests, and everything
// stands under blobs by its digest.
func readOCI(files entries) ([]image, error) {
	var index struct{ Manifests []descriptor }
	if err := files.json("index.json", &index); err != nil {
		return nil, err
	}
	var images []image
	for _, target := range index.Manifests {
		var body manifest
		if err := files.json(blobPath(target.Digest), &body); err != nil {
			return nil, err
		}
		if body.Config.Digest == "" {
			return nil, fmt.Errorf("reading the image archive: %s is an index of several platforms; save one platform only", target.Digest)
		}
		whole, err := files.blob(blobPath(target.Digest), target.MediaType)
		if err != nil {
			return nil, err
		}
		made := image{manifest: whole}
		for _, part := range append([]descriptor{body.Config}, body.Layers...) {
			content, err := files.blob(blobPath(part.Digest), part.MediaType)
			if err != nil {
				return nil, err
			}
			made.blobs = append(made.blobs, content)
		}
		name := target.Annotations["io.containerd.image.name"]
		if name == "" {
			name = target.Annotations["org.opencontainers.image.ref.name"]
		}
		if made.names, err = fullNames([]string{name}); err != nil {
			return nil, err
		}
		images = append(images, made)
	}
	return images, nil
}

func blobPath(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }
