package volume

import (
	"fmt"
	"io/fs"
	"os"
)

// own gives a path its mode and owners. A group of the Pod's own may read files,
// and folders hand it on to what is made in them.
func own(path string, mode fs.FileMode, user, group *int64) error {
	uid, gid := -1, -1
	if user != nil {
		uid = int(*user)
	}
	if group != nil {
		gid = int(*group)
	}
	if uid >= 0 || gid >= 0 {
		if err := os.Lchown(path, uid, gid); err != nil {
			return fmt.Errorf("giving the volume to the Pod: %w", err)
		}
	}
	if err := os.Chmod(path, groupMode(mode, group)); err != nil {
		return fmt.Errorf("setting the mode of the volume: %w", err)
	}
	return nil
}

func groupMode(mode fs.FileMode, group *int64) fs.FileMode {
	switch {
	case group == nil:
		return mode.Perm()
	case mode.IsDir():
		return mode.Perm() | 0o550 | fs.ModeSetgid
	}
	return mode.Perm() | 0o440
}
