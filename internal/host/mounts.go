package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mountPoint is one line of the kernel's list of mounts.
type mountPoint struct {
	target, fsType, superOptions string
	shared                       bool // mounts below it propagate
}

func readMounts() ([]mountPoint, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	return parseMounts(string(text)), nil
}

// parseMounts reads proc_pid_mountinfo(5).
func parseMounts(text string) []mountPoint {
	var mounts []mountPoint
	for _, line := range strings.Split(text, "\n") {
		before, after, found := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !found || len(left) < 5 || len(right) < 3 {
			continue
		}
		mounts = append(mounts, mountPoint{target: unescapeMount(left[4]), fsType: right[0], superOptions: right[2],
			shared: strings.Contains(before, " shared:")})
	}
	return mounts
}

// unescapeMount undoes the kernel's octal escapes of blanks and backslashes.
func unescapeMount(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// below lists the mounts strictly below a folder, in the order they were made.
func below(mounts []mountPoint, dir string) []mountPoint {
	var found []mountPoint
	for _, m := range mounts {
		if strings.HasPrefix(m.target, dir+"/") {
			found = append(found, m)
		}
	}
	return found
}

// unmountBelow takes away every mount strictly below a folder, latest first.
func unmountBelow(dir string) error {
	mounts, err := readMounts()
	if err != nil {
		return err
	}
	found := below(mounts, dir)
	var failed []error
	for i := len(found) - 1; i >= 0; i-- {
		err := unix.Unmount(found[i].target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		// EINVAL: it went with its parent.
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			failed = append(failed, fmt.Errorf("unmounting %s: %w", found[i].target, err))
		}
	}
	return errors.Join(failed...)
}

// removeTree removes a folder after unmounting what is below it. It refuses to
// delete while anything is still mounted there: below a mount may lie somebody
// else's files.
func removeTree(dir string) error {
	if err := unmountBelow(dir); err != nil {
		return err
	}
	mounts, err := readMounts()
	if err != nil {
		return err
	}
	if left := below(mounts, dir); len(left) > 0 {
		return fmt.Errorf("removing %s: %s is still mounted", dir, left[0].target)
	}
	if err := os.RemoveAll(dir); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	return nil // busy: it is itself a mount point, and is empty now
}

// overlayWorks tries an overlay mount where the images will be kept: it fails on
// some file systems, for example when the folder is itself on an overlay.
func overlayWorks(dataDir string) bool {
	dir, err := os.MkdirTemp(nearestExisting(dataDir), ".muster-overlay-")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return false
		}
	}
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)
	merged := filepath.Join(dir, "merged")
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		return false
	}
	return unix.Unmount(merged, unix.MNT_DETACH) == nil
}

// nearestExisting is the folder itself or its nearest parent that exists.
func nearestExisting(dir string) string {
	for dir != "/" && !exists(dir) {
		dir = filepath.Dir(dir)
	}
	return dir
}
