package host

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	leasesapi "github.com/containerd/containerd/api/services/leases/v1"
	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"google.golang.org/grpc/metadata"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"muster.dev/muster/internal/host/pause"
)

// files are the contents of a tar, in this order.
type tarFile struct {
	name    string
	content []byte
}

func packTar(t *testing.T, files ...tarFile) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, file := range files {
		if err := writer.WriteHeader(&tar.Header{Name: file.name, Mode: 0o755, Size: int64(len(file.content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write(file.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func hexSum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func asJSON(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// holdImage is an image whose only program waits for SIGTERM, as `docker save`
// and as an OCI layout.
func holdImage(t *testing.T, name string, compress bool) (docker, oci []byte) {
	t.Helper()
	program, err := pause.Program(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	plain := packTar(t, tarFile{"hold", program})
	layer, media := plain, mediaLayer
	if compress {
		var out bytes.Buffer
		writer := gzip.NewWriter(&out)
		if _, err := writer.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		layer, media = out.Bytes(), mediaLayerGzip
	}
	config := asJSON(t, map[string]any{"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/hold"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hexSum(plain)}}})
	list := asJSON(t, []any{map[string]any{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"l/layer.tar"}}})
	docker = packTar(t, tarFile{"config.json", config}, tarFile{"l/layer.tar", layer}, tarFile{"manifest.json", list})

	body := asJSON(t, manifest{SchemaVersion: 2, MediaType: mediaManifest,
		Config: bytesBlob(mediaConfig, config).descriptor, Layers: []descriptor{bytesBlob(media, layer).descriptor}})
	target := bytesBlob(mediaManifest, body).descriptor
	target.Annotations = map[string]string{"io.containerd.image.name": name}
	index := asJSON(t, map[string]any{"schemaVersion": 2, "manifests": []any{target}})
	oci = packTar(t, tarFile{"blobs/sha256/" + hexSum(config), config}, tarFile{"blobs/sha256/" + hexSum(layer), layer},
		tarFile{"blobs/sha256/" + hexSum(body), body}, tarFile{"index.json", index})
	return docker, oci
}

func TestReadArchive(t *testing.T) {
	plain, plainOCI := holdImage(t, "hold:1", false)
	zipped, zippedOCI := holdImage(t, "hold:1", true)
	for _, test := range []struct {
		name    string
		archive []byte
		media   string
		wrong   string
	}{
		{name: "docker", archive: plain, media: mediaLayer},
		{name: "docker, compressed layers", archive: zipped, media: mediaLayerGzip},
		{name: "oci", archive: plainOCI, media: mediaLayer},
		{name: "oci, compressed layers", archive: zippedOCI, media: mediaLayerGzip},
		{name: "neither", archive: packTar(t, tarFile{"readme", nil}), wrong: "neither manifest.json nor index.json"},
		{name: "not a tar", archive: []byte(strings.Repeat("x", 2048)), wrong: "reading the image archive"},
		{name: "a layer is missing", wrong: "l/gone is missing", archive: packTar(t, tarFile{"c", nil},
			tarFile{"manifest.json", []byte(`[{"Config":"c","RepoTags":["a"],"Layers":["l/gone"]}]`)})},
		{name: "no name", wrong: "has no name", archive: packTar(t, tarFile{"c", nil},
			tarFile{"manifest.json", []byte(`[{"Config":"c","Layers":[]}]`)})},
	} {
		t.Run(test.name, func(t *testing.T) {
			images, err := readArchive(bytes.NewReader(test.archive), int64(len(test.archive)))
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) {
					t.Fatalf("error %v, want %q", err, test.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(images) != 1 || !slices.Equal(images[0].names, []string{"docker.io/library/hold:1"}) {
				t.Fatalf("images %+v", images)
			}
			for _, part := range append(images[0].blobs, images[0].manifest) {
				content, err := io.ReadAll(part.open())
				if err != nil {
					t.Fatal(err)
				}
				if "sha256:"+hexSum(content) != part.Digest || int64(len(content)) != part.Size {
					t.Errorf("%s: content does not match its digest or size", part.MediaType)
				}
			}
			if got := images[0].blobs[1].MediaType; got != test.media {
				t.Errorf("layer's media type %s, want %s", got, test.media)
			}
		})
	}
}

func TestImportRunsAndEndsOnTerm(t *testing.T) {
	options := realOptions(t, "10.213.5.0/24")
	if _, err := Import(t.Context(), options, "none.tar"); err == nil || !strings.Contains(err.Error(), "muster up") {
		t.Errorf("importing with nothing running: %v", err)
	}
	c := start(t, options)
	docker, oci := holdImage(t, "example.test/hold:1", true)
	for name, content := range map[string][]byte{"docker.tar": docker, "oci.tar": oci} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			names, err := Import(t.Context(), options, file)
			if err != nil || !slices.Equal(names, []string{"example.test/hold:1"}) {
				t.Fatalf("importing %s: %v, %v", name, names, err)
			}
		}
	}
	if !unpackedAfterCollection(t, c, docker) {
		t.Error("the image is not unpacked, or what was unpacked is collected as garbage")
	}
	id := runContainer(t, c, runSandbox(t, c, "uid-5", 18935), "uid-5", "example.test/hold:1")
	client := cri.NewRuntimeServiceClient(c.conn)
	if _, err := client.StopContainer(t.Context(), &cri.StopContainerRequest{ContainerId: id, Timeout: 20}); err != nil {
		t.Fatal(err)
	}
	status, err := client.ContainerStatus(t.Context(), &cri.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		t.Fatal(err)
	}
	// As process 1 it ends by itself with 0; had it ignored SIGTERM, 137.
	if status.Status.ExitCode != 0 || status.Status.State != cri.ContainerState_CONTAINER_EXITED {
		t.Errorf("after SIGTERM: %s with exit code %d", status.Status.State, status.Status.ExitCode)
	}
}

// unpackedAfterCollection says whether an archive's layers are unpacked and stay
// so when containerd collects what nothing refers to.
func unpackedAfterCollection(t *testing.T, c *Containerd, archive []byte) bool {
	t.Helper()
	images, err := readArchive(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.NewDecoder(images[0].blobs[0].open()).Decode(&config); err != nil {
		t.Fatal(err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "containerd-namespace", criNamespace)
	leases := leasesapi.NewLeasesClient(c.conn)
	lease, err := leases.Create(ctx, &leasesapi.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	// Ending a lease and waiting for it is how one asks for a collection.
	if _, err := leases.Delete(ctx, &leasesapi.DeleteRequest{ID: lease.Lease.ID, Sync: true}); err != nil {
		t.Fatal(err)
	}
	_, err = snapshotsapi.NewSnapshotsClient(c.conn).Stat(ctx, &snapshotsapi.StatSnapshotRequest{
		Snapshotter: c.process.Snapshotter, Key: config.RootFS.DiffIDs[0]})
	return err == nil
}
