package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"muster.dev/muster/internal/wholefile"
)

// dirs knows where the agent's own memory of Pods stands: beside their folders
// (RootDir/pods), not in them, so that it outlives their volumes and is the last
// thing of a Pod to go.
type dirs struct{ root string }

func (d dirs) journals() string             { return filepath.Join(d.root, "journals") }
func (d dirs) memory(uid types.UID) string  { return filepath.Join(d.journals(), string(uid)) }
func (d dirs) journal(uid types.UID) string { return filepath.Join(d.memory(uid), "journal") }
func (d dirs) object(uid types.UID) string  { return filepath.Join(d.memory(uid), "pod.json") }

// remembered lists the Pods of which there is a memory.
func (d dirs) remembered() ([]types.UID, error) {
	entries, err := os.ReadDir(d.journals())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing journals: %w", err)
	}
	var uids []types.UID
	for _, entry := range entries {
		uids = append(uids, types.UID(entry.Name()))
	}
	return uids, nil
}

// savePod keeps a Pod's object on disk; the file is whole or not there.
func savePod(path string, pod *v1.Pod) error {
	data, err := json.Marshal(pod)
	if err != nil {
		return fmt.Errorf("saving Pod object: %w", err)
	}
	if err := wholefile.Write(path, data, 0o600); err != nil {
		return fmt.Errorf("saving Pod object: %w", err)
	}
	return nil
}

// loadPod reads what savePod wrote.
func loadPod(path string) (*v1.Pod, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("loading Pod object: %w", err)
	}
	pod := &v1.Pod{}
	if err := json.Unmarshal(data, pod); err != nil {
		return nil, fmt.Errorf("loading Pod object: %w", err)
	}
	return pod, nil
}
