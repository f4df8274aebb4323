package host

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	leasesapi "github.com/containerd/containerd/api/services/leases/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/host/pause"
)

// SandboxImage is the name of the image that holds a Pod's namespaces. muster
// makes it itself; no registry has it.
const SandboxImage = "muster.dev/pause:1"

// pinned tells the runtime, and whoever cleans up its images, to keep one.
var pinned = map[string]string{"io.cri-containerd.pinned": "pinned"}

// Import stores the images of an archive file (from `docker save`, or an OCI
// layout in a tar) in the containerd that Start left running for this data
// directory, and returns their names. Importing the same file again changes
// nothing.
func Import(ctx context.Context, options Options, archive string) ([]string, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	l := newLayout(options.DataDir)
	c := &Containerd{layout: l, options: options, process: readProcess(l.record)}
	if !c.process.running() {
		return nil, fmt.Errorf("importing images: no containerd runs for %s; start it with `muster up`", l.data)
	}
	if err := c.connect(ctx, startTimeout); err != nil {
		return nil, err
	}
	names, err := c.importArchive(ctx, archive)
	return names, errors.Join(err, c.Close())
}

func (c *Containerd) importArchive(ctx context.Context, archive string) ([]string, error) {
	file, images, err := readArchiveFile(archive)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, one := range images {
		if err = c.storeImage(ctx, one, nil); err != nil {
			err = fmt.Errorf("importing %s: %w", archive, err)
			break
		}
		names = append(names, one.names...)
	}
	return names, errors.Join(err, file.Close())
}

// sandboxImage builds the sandbox image for this machine's processor.
func sandboxImage() (image, error) {
	program, err := pause.Program(runtime.GOARCH)
	if err != nil {
		return image{}, err
	}
	var layer bytes.Buffer
	writer := tar.NewWriter(&layer)
	err = writer.WriteHeader(&tar.Header{Name: "pause", Mode: 0o755, Size: int64(len(program)), ModTime: time.Unix(0, 0)})
	if err == nil {
		_, err = writer.Write(program)
	}
	if err = errors.Join(err, writer.Close()); err != nil {
		return image{}, fmt.Errorf("packing the sandbox image: %w", err)
	}
	layerBlob := bytesBlob(mediaLayer, layer.Bytes())
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		// 65535 owns nothing, so that an escape from the sandbox owns nothing.
		"config": map[string]any{"Entrypoint": []string{"/pause"}, "User": "65535:65535", "WorkingDir": "/"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layerBlob.Digest}},
	})
	if err != nil {
		return image{}, fmt.Errorf("packing the sandbox image: %w", err)
	}
	return assemble([]string{SandboxImage}, []blob{bytesBlob(mediaConfig, config), layerBlob})
}

// storeImage writes an image's blobs, unpacks it, and files it under its names. A
// lease keeps all of it from being collected until a name refers to it.
func (c *Containerd) storeImage(ctx context.Context, one image, labels map[string]string) (err error) {
	conn := c.conn
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", criNamespace)
	leases := leasesapi.NewLeasesClient(conn)
	lease, err := leases.Create(ctx, &leasesapi.CreateRequest{Labels: map[string]string{
		"containerd.io/gc.expire": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}})
	if err != nil {
		return fmt.Errorf("leasing image content: %w", err)
	}
	defer func() {
		_, ended := leases.Delete(context.WithoutCancel(ctx), &leasesapi.DeleteRequest{ID: lease.Lease.ID})
		err = errors.Join(err, ended)
	}()
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-lease", lease.Lease.ID)
	if err := storeBlobs(ctx, conn, one); err != nil {
		return err
	}
	if err := unpack(ctx, conn, c.process.Snapshotter, one); err != nil {
		return err
	}
	for _, name := range one.names {
		if err := nameImage(ctx, conn, name, one.manifest.descriptor, labels); err != nil {
			return err
		}
		if err := awaitImage(ctx, conn, name, one.blobs[0].Digest); err != nil {
			return err
		}
	}
	return nil
}

// storeBlobs writes an image's content. The manifest refers to its parts by
// labels; without them they would be garbage.
func storeBlobs(ctx context.Context, conn *grpc.ClientConn, one image) error {
	refs := map[string]string{"containerd.io/gc.ref.content.config": one.blobs[0].Digest}
	for i, part := range one.blobs {
		if i > 0 {
			refs[fmt.Sprintf("containerd.io/gc.ref.content.l.%d", i-1)] = part.Digest
		}
		if err := storeBlob(ctx, conn, part, nil); err != nil {
			return err
		}
	}
	return storeBlob(ctx, conn, one.manifest, refs)
}

// awaitImage waits until the CRI part of containerd knows a name for what it now
// is (CRI's image ID is the digest of the configuration). It learns of names from
// containerd's events, a little after they are made, and announces nothing.
func awaitImage(ctx context.Context, conn *grpc.ClientConn, name, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client := cri.NewImageServiceClient(conn)
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		reply, err := client.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
		return reply.GetImage().GetId() == id, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the runtime to know image %s: %w", name, err)
	}
	return nil
}

// storeBlob writes one blob unless the store has it.
func storeBlob(ctx context.Context, conn *grpc.ClientConn, part blob, labels map[string]string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	stream, err := contentapi.NewContentClient(conn).Write(ctx)
	if err != nil {
		return fmt.Errorf("storing %s: %w", part.Digest, err)
	}
	send := func(request *contentapi.WriteContentRequest) (*contentapi.WriteContentResponse, error) {
		request.Ref, request.Total, request.Expected = "muster-"+part.Digest, part.Size, part.Digest
		if err := stream.Send(request); err != nil && err != io.EOF {
			return nil, err
		}
		return stream.Recv() // on a broken stream this holds the reason
	}
	at, err := send(&contentapi.WriteContentRequest{Action: contentapi.WriteAction_STAT})
	if status.Code(err) == codes.AlreadyExists {
		return nil
	}
	if err != nil {
		return fmt.Errorf("storing %s: %w", part.Digest, err)
	}
	// An import that was cut short goes on where it stood.
	content := part.open()
	if _, err := io.CopyN(io.Discard, content, at.Offset); err != nil {
		return fmt.Errorf("storing %s: %w", part.Digest, err)
	}
	offset, buffer := at.Offset, make([]byte, 1<<20)
	for offset < part.Size {
		n, err := io.ReadFull(content, buffer[:min(int64(len(buffer)), part.Size-offset)])
		if err == nil {
			_, err = send(&contentapi.WriteContentRequest{Action: contentapi.WriteAction_WRITE, Offset: offset, Data: buffer[:n]})
		}
		if err != nil {
			return fmt.Errorf("storing %s: %w", part.Digest, err)
		}
		offset += int64(n)
	}
	_, err = send(&contentapi.WriteContentRequest{Action: contentapi.WriteAction_COMMIT, Offset: offset, Labels: labels})
	if err != nil && status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("storing %s: %w", part.Digest, err)
	}
	return nil
}

// nameImage files a manifest under a name, replacing what had it.
func nameImage(ctx context.Context, conn *grpc.ClientConn, name string, target descriptor, labels map[string]string) error {
	images := imagesapi.NewImagesClient(conn)
	record := &imagesapi.Image{Name: name, Labels: labels, Target: &types.Descriptor{
		MediaType: target.MediaType, Digest: target.Digest, Size: target.Size}}
	_, err := images.Create(ctx, &imagesapi.CreateImageRequest{Image: record})
	if status.Code(err) == codes.AlreadyExists {
		_, err = images.Update(ctx, &imagesapi.UpdateImageRequest{Image: record})
	}
	if err != nil {
		return fmt.Errorf("naming image %s: %w", name, err)
	}
	return nil
}
