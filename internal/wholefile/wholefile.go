// Package wholefile replaces files so that a kill, at any moment, leaves the old
// content or the new and never a part of either. It owns no file: who may write
// one, and when, is its caller's affair.
package wholefile

import (
	"errors"
	"os"
)

// Write makes name hold exactly data, with that mode whatever the umask. The data
// is on disk before the name leads to it; that the name does so outlives a crash
// of the machine only after SyncDir. One file has one writer at a time: what a
// killed one left is written over.
func Write(name string, data []byte, mode os.FileMode) error {
	next := name + ".new"
	file, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(next, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return nil
}

// SyncDir makes the names in a directory outlive a crash of the machine.
func SyncDir(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
