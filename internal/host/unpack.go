package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	diffapi "github.com/containerd/containerd/api/services/diff/v1"
	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// unpack makes the snapshots that containers start from. The runtime would do it
// for the first container of an image, which would then start seconds later.
func unpack(ctx context.Context, conn *grpc.ClientConn, snapshotter string, one image) error {
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.NewDecoder(one.blobs[0].open()).Decode(&config); err != nil {
		return fmt.Errorf("reading the image's configuration: %w", err)
	}
	layers := one.blobs[1:]
	if len(config.RootFS.DiffIDs) != len(layers) {
		return fmt.Errorf("unpacking: the configuration names %d layers, the image has %d", len(config.RootFS.DiffIDs), len(layers))
	}
	chain := ""
	for i, layer := range layers {
		parent := chain
		chain = chainID(parent, config.RootFS.DiffIDs[i])
		if err := unpackLayer(ctx, conn, snapshotter, layer.descriptor, parent, chain); err != nil {
			return fmt.Errorf("unpacking layer %s: %w", layer.Digest, err)
		}
	}
	if chain == "" {
		return nil
	}
	// As long as the configuration is kept, so is the snapshot.
	label := "containerd.io/gc.ref.snapshot." + snapshotter
	_, err := contentapi.NewContentClient(conn).Update(ctx, &contentapi.UpdateRequest{
		Info:       &contentapi.Info{Digest: one.blobs[0].Digest, Labels: map[string]string{label: chain}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels." + label}},
	})
	if err != nil {
		return fmt.Errorf("keeping the unpacked layers: %w", err)
	}
	return nil
}

// chainID names the file system that a stack of layers makes, as the OCI image
// specification has it.
func chainID(parent, diff string) string {
	if parent == "" {
		return diff
	}
	sum := sha256.Sum256([]byte(parent + " " + diff))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// unpackLayer puts a layer on top of its parent's snapshot, unless it is there.
func unpackLayer(ctx context.Context, conn *grpc.ClientConn, snapshotter string, layer descriptor, parent, chain string) error {
	snapshots := snapshotsapi.NewSnapshotsClient(conn)
	_, err := snapshots.Stat(ctx, &snapshotsapi.StatSnapshotRequest{Snapshotter: snapshotter, Key: chain})
	if err == nil || status.Code(err) != codes.NotFound {
		return err
	}
	key := "muster-unpack " + chain
	// What an unpacking that was cut short left may hold half a layer.
	_, err = snapshots.Remove(ctx, &snapshotsapi.RemoveSnapshotRequest{Snapshotter: snapshotter, Key: key})
	if err != nil && status.Code(err) != codes.NotFound {
		return err
	}
	prepared, err := snapshots.Prepare(ctx, &snapshotsapi.PrepareSnapshotRequest{Snapshotter: snapshotter, Key: key, Parent: parent})
	if err != nil {
		return err
	}
	_, err = diffapi.NewDiffClient(conn).Apply(ctx, &diffapi.ApplyRequest{Mounts: prepared.Mounts,
		Diff: &types.Descriptor{MediaType: layer.MediaType, Digest: layer.Digest, Size: layer.Size}})
	if err != nil {
		return err
	}
	_, err = snapshots.Commit(ctx, &snapshotsapi.CommitSnapshotRequest{Snapshotter: snapshotter, Name: chain, Key: key})
	if status.Code(err) == codes.AlreadyExists {
		return nil // somebody else unpacked it meanwhile
	}
	return err
}
