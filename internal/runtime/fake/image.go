package fake

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
)

// imageKey is the one form all names of an image are looked up by.
func imageKey(name string) string {
	if strings.HasPrefix(name, "sha256:") {
		return name // an ID, though it reads like a name with a tag
	}
	named, err := reference.ParseDockerRef(name)
	if err != nil {
		return name // which is then never found
	}
	return named.String()
}

// imageLocked finds an image by a name or its ID, which reads like a name too.
func (r *Runtime) imageLocked(name string) (*runtime.Image, bool) {
	if image, ok := r.images[name]; ok {
		return image, true
	}
	image, ok := r.images[imageKey(name)]
	return image, ok
}

// Image looks an image up by a name or ID; nil when it is not there.
func (r *Runtime) Image(ctx context.Context, name string) (*runtime.Image, error) {
	if err := r.enter(ctx, "looking up image "+name); err != nil {
		return nil, err
	}
	defer r.mu.Unlock()
	image, ok := r.imageLocked(name)
	if !ok {
		return nil, nil
	}
	found := *image
	return &found, nil
}

// Images lists all images by ID.
func (r *Runtime) Images(ctx context.Context) ([]runtime.Image, error) {
	if err := r.enter(ctx, "listing images"); err != nil {
		return nil, err
	}
	defer r.mu.Unlock()
	var images []runtime.Image
	for key, image := range r.images {
		if key == image.ID {
			images = append(images, *image)
		}
	}
	slices.SortFunc(images, func(a, b runtime.Image) int { return cmp.Compare(a.ID, b.ID) })
	return images, nil
}

// PullImage fetches an image as the Script says and returns its ID.
func (r *Runtime) PullImage(ctx context.Context, name string, _ *cri.AuthConfig, _ *cri.PodSandboxConfig) (string, error) {
	doing := "pulling image " + name
	if _, err := reference.ParseDockerRef(name); err != nil {
		return "", fmt.Errorf("%s: %w", doing, runtime.WithKind(err, runtime.ErrInvalidImageName))
	}
	if err := r.enter(ctx, doing); err != nil {
		return "", err
	}
	r.pulls[name]++
	nth, script := r.pulls[name], r.script
	r.mu.Unlock()
	pull := script.pull(name, nth)
	if err := r.wait(ctx, pull.Delay); err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	if pull.Failure != nil {
		return "", fmt.Errorf("%s: %w", doing, runtime.WithKind(pull.Failure, runtime.ErrPullFailed))
	}
	if err := r.enter(ctx, doing); err != nil {
		return "", err
	}
	defer r.mu.Unlock()
	return r.addImageLocked(name, pull), nil
}

// AddImage puts an image there without a pull; of p only the image's facts count.
func (r *Runtime) AddImage(name string, p Pull) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addImageLocked(name, p)
}

// Pulls is how often a name was asked to be pulled.
func (r *Runtime) Pulls(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pulls[name]
}

func (r *Runtime) addImageLocked(name string, p Pull) string {
	key := imageKey(name)
	sum := sha256.Sum256([]byte(key))
	id := "sha256:" + hex.EncodeToString(sum[:])
	image := &runtime.Image{ID: id, Bytes: cmp.Or(p.Bytes, 1<<20), UID: p.UID, Username: p.Username}
	named, err := reference.ParseDockerRef(name)
	if _, digested := named.(reference.Digested); err == nil && !digested {
		image.RepoTags = []string{key}
		image.RepoDigests = []string{named.Name() + "@" + id}
	} else {
		image.RepoDigests = []string{key}
	}
	r.images[key], r.images[id] = image, image
	return id
}

// RemoveImage removes an image and all its names.
func (r *Runtime) RemoveImage(ctx context.Context, name string) error {
	if err := r.enter(ctx, "removing image "+name); err != nil {
		return err
	}
	defer r.mu.Unlock()
	image, ok := r.imageLocked(name)
	if !ok {
		return nil
	}
	for key, other := range r.images {
		if other == image {
			delete(r.images, key)
		}
	}
	return nil
}
