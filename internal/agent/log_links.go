package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/agent/spec"
)

// logLinks keeps the links by which node agents find containers' logs:
// CONTAINERS/POD_NAMESPACE_CONTAINER-ID.log to PODS/NS_POD_UID/CONTAINER/N.log.
type logLinks struct{ pods, containers string }

// add links one container's log; it may be repeated.
func (l logLinks) add(pod *v1.Pod, container string, attempt int, id string) error {
	target := l.log(pod, container, attempt)
	link := filepath.Join(l.containers, spec.LogLink(pod, container, id))
	if err := os.MkdirAll(l.containers, 0o755); err != nil { // whoever cleans up logs may have taken it
		return fmt.Errorf("linking log: %w", err)
	}
	err := os.Symlink(target, link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("linking log: %w", err)
	}
	return nil
}

func (l logLinks) log(pod *v1.Pod, container string, attempt int) string {
	return filepath.Join(spec.LogDirectory(l.pods, pod), spec.LogPath(container, uint32(attempt)))
}

func (l logLinks) remove(pod *v1.Pod, container, id string) error {
	err := os.Remove(filepath.Join(l.containers, spec.LogLink(pod, container, id)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing log link: %w", err)
	}
	return nil
}

// removeWithLog removes one attempt's link, log file and turned-over logs.
func (l logLinks) removeWithLog(pod *v1.Pod, container string, attempt int, id string) error {
	if err := l.remove(pod, container, id); err != nil {
		return err
	}
	path := l.log(pod, container, attempt)
	files, err := filepath.Glob(path + "*")
	if err != nil {
		return fmt.Errorf("finding logs: %w", err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing log: %w", err)
		}
	}
	return nil
}

// removeAll removes all of a Pod's logs and links.
func (l logLinks) removeAll(pod *v1.Pod) error {
	folder := spec.LogDirectory(l.pods, pod)
	links, err := filepath.Glob(filepath.Join(l.containers, pod.Name+"_"+pod.Namespace+"_*.log"))
	if err != nil {
		return fmt.Errorf("finding log links: %w", err)
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, folder+string(filepath.Separator)) {
			continue // another Pod of the same name
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing log link: %w", err)
		}
	}
	err = os.RemoveAll(folder)
	if err != nil && !errors.Is(err, unix.ENAMETOOLONG) { // a folder of such a name was never made
		return fmt.Errorf("removing logs: %w", err)
	}
	return nil
}
