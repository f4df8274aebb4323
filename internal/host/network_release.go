package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// libcniResults is where the CNI library remembers every attachment of the
// machine, whoever made it.
const libcniResults = "/var/lib/cni/results"

// reservation is what host-local keeps for one address: a file named by the
// address, whose first line is the owner.
type reservation struct{ file, owner string }

func reservations(l layout) ([]reservation, error) {
	dir := filepath.Join(l.cniState, l.network)
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listing address reservations: %w", err)
	}
	var found []reservation
	for _, file := range files {
		if _, err := netip.ParseAddr(file.Name()); err != nil {
			continue // its lock and its last address
		}
		name := filepath.Join(dir, file.Name())
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading an address reservation: %w", err)
		}
		owner, _, _ := strings.Cut(string(text), "\n")
		found = append(found, reservation{file: name, owner: strings.TrimSpace(owner)})
	}
	return found, nil
}

// releaseStale gives back what Pods held that the runtime no longer knows: their
// removal was cut short. held is what was reserved before containerd started:
// whatever came later belongs to a Pod that is just being made, which the runtime
// does not list before it is complete.
func (c *Containerd) releaseStale(ctx context.Context, held []reservation) error {
	if len(held) == 0 {
		return nil
	}
	list, err := cri.NewRuntimeServiceClient(c.conn).ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("listing sandboxes: %w", err)
	}
	lost := map[string]bool{}
	for _, one := range held {
		lost[one.owner] = true
	}
	for _, sandbox := range list.Items {
		delete(lost, sandbox.Id)
	}
	stale := func(id string) bool { return lost[id] }
	// The address last: as long as it is reserved, the rest is found again.
	failed := errors.Join(releaseRules(ctx, c.layout, stale), releaseResults(c.layout, stale))
	for _, one := range held {
		if lost[one.owner] && failed == nil {
			failed = removeFiles(one.file)
		}
	}
	return failed
}

// releaseResults removes the CNI library's memory of attachments of stale owners. Ours are those with a network namespace below our state folder.
func releaseResults(l layout, stale func(id string) bool) error {
	files, err := filepath.Glob(filepath.Join(libcniResults, "*"))
	if err != nil {
		return fmt.Errorf("listing network attachments: %w", err)
	}
	var failed []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // given back by its owner just now
		}
		if owner, ours := attachmentOwner(text, l.state); ours && stale(owner) {
			failed = append(failed, removeFiles(file))
		}
	}
	return errors.Join(failed...)
}

// attachmentOwner reads a remembered attachment: which sandbox it is for, and
// whether its network namespace is below the state folder.
func attachmentOwner(text []byte, state string) (owner string, ours bool) {
	var remembered struct {
		ContainerID string `json:"containerId"`
		Result      struct {
			Interfaces []struct {
				Sandbox string `json:"sandbox"`
			} `json:"interfaces"`
		} `json:"result"`
	}
	if json.Unmarshal(text, &remembered) != nil {
		return "", false // not of this format, so not ours
	}
	for _, one := range remembered.Result.Interfaces {
		if strings.HasPrefix(one.Sandbox, state+"/") {
			return remembered.ContainerID, true
		}
	}
	return "", false
}
