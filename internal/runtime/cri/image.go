package cri

import (
	"context"
	"fmt"

	"github.com/distribution/reference"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/runtime"
)

// Image looks an image up by the name a Pod uses; nil when it is not there.
func (c *Client) Image(ctx context.Context, name string) (*runtime.Image, error) {
	answer, err := call(ctx, c, "looking up image "+name, c.images.ImageStatus, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
	if err != nil {
		return nil, gone(err)
	}
	if answer.Image == nil {
		return nil, nil
	}
	image := imageOf(answer.Image)
	return &image, nil
}

// Images lists all images.
func (c *Client) Images(ctx context.Context) ([]runtime.Image, error) {
	answer, err := call(ctx, c, "listing images", c.images.ListImages, &cri.ListImagesRequest{})
	if err != nil {
		return nil, err
	}
	images := make([]runtime.Image, 0, len(answer.Images))
	for _, image := range answer.Images {
		images = append(images, imageOf(image))
	}
	return images, nil
}

func imageOf(i *cri.Image) runtime.Image {
	image := runtime.Image{
		ID:          i.Id,
		RepoTags:    i.RepoTags,
		RepoDigests: i.RepoDigests,
		Bytes:       int64(i.Size),
		Pinned:      i.Pinned,
		Username:    i.Username,
	}
	if i.Uid != nil && i.Username == "" {
		uid := i.Uid.Value
		image.UID = &uid
	}
	return image
}

// PullImage fetches an image and returns its reference.
func (c *Client) PullImage(ctx context.Context, name string, auth *cri.AuthConfig, sandbox *cri.PodSandboxConfig) (string, error) {
	if _, err := reference.ParseAnyReference(name); err != nil {
		return "", fmt.Errorf("pulling image %q: %w", name, runtime.WithKind(err, runtime.ErrInvalidImageName))
	}
	answer, err := callWithin(ctx, c.options.LongTimeout, "pulling image "+name, c.images.PullImage,
		&cri.PullImageRequest{Image: &cri.ImageSpec{Image: name, UserSpecifiedImage: name}, Auth: auth, SandboxConfig: sandbox})
	if err != nil {
		return "", translatePull(err)
	}
	return answer.ImageRef, nil
}

// RemoveImage removes an image and all its names.
func (c *Client) RemoveImage(ctx context.Context, name string) error {
	_, err := call(ctx, c, "removing image "+name, c.images.RemoveImage, &cri.RemoveImageRequest{Image: &cri.ImageSpec{Image: name}})
	return gone(err)
}

// Stats is the present use of every container.
func (c *Client) Stats(ctx context.Context) (map[string]runtime.Stats, error) {
	answer, err := call(ctx, c, "reading container statistics", c.runtime.ListContainerStats, &cri.ListContainerStatsRequest{})
	if err != nil {
		return nil, err
	}
	stats := make(map[string]runtime.Stats, len(answer.Stats))
	for _, s := range answer.Stats {
		stats[s.GetAttributes().GetId()] = runtime.Stats{
			At:              at(s.GetCpu().GetTimestamp()),
			CPUNanos:        s.GetCpu().GetUsageCoreNanoSeconds().GetValue(),
			WorkingSet:      s.GetMemory().GetWorkingSetBytes().GetValue(),
			RSS:             s.GetMemory().GetRssBytes().GetValue(),
			FilesystemBytes: s.GetWritableLayer().GetUsedBytes().GetValue(),
		}
	}
	return stats, nil
}
