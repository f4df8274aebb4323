package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"muster.dev/muster/internal/podplan"
	"muster.dev/muster/internal/reason"
	"muster.dev/muster/internal/wholefile"
)

// journalLimit is the size, in bytes, from which a journal is rewritten with
// only what still counts.
const journalLimit = 128 << 10

// journal is one Pod's durable memory: what must not be lost when the agent is
// killed or a container disappears from the runtime. It is an append-only file
// of JSON lines; a line cut off by a crash is dropped at the next opening.
// One worker owns it; it is not safe for concurrent use.
type journal struct {
	path  string
	file  *os.File
	size  int64
	limit int64
	facts facts
}

// fact is one line of the journal; exactly one field is set.
type fact struct {
	Attempt     *podplan.Attempt     `json:"attempt,omitempty"`
	Sandbox     int                  `json:"sandbox,omitempty"` // how many sandboxes there were, this one included
	Starting    *starting            `json:"starting,omitempty"`
	Terminating *podplan.Termination `json:"terminating,omitempty"`
	Rejected    *reason.Reason       `json:"rejected,omitempty"`
	Admitted    bool                 `json:"admitted,omitempty"`
}

// starting is a start that the agent asks the runtime for. When a later agent finds
// that it came to nothing, it was the agent's end that broke it off.
type starting struct {
	Container string `json:"container"`
	Attempt   int    `json:"attempt"`
}

// durable says whether the agent may act on the fact only once it is on disk.
func (f fact) durable() bool {
	if f.Attempt != nil {
		return f.Attempt.State == podplan.RunExited
	}
	return f.Sandbox != 0 || f.Terminating != nil || f.Rejected != nil
}

// openJournal reads the journal at path, creating it and its directory.
func openJournal(path string) (*journal, error) {
	j := &journal{path: path, limit: journalLimit, facts: newFacts()}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("opening journal: %w", err)
	}
	whole, err := j.read()
	if err != nil {
		return nil, fmt.Errorf("opening journal: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening journal: %w", err)
	}
	if err := errors.Join(file.Truncate(whole), seekEnd(file), wholefile.SyncDir(filepath.Dir(path))); err != nil {
		return nil, errors.Join(fmt.Errorf("opening journal: %w", err), file.Close())
	}
	j.file, j.size = file, whole
	return j, nil
}

// read takes in every whole line and returns how many bytes those are.
func (j *journal) read() (int64, error) {
	data, err := os.ReadFile(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var whole int64
	for {
		end := bytes.IndexByte(data[whole:], '\n')
		if end < 0 {
			return whole, nil
		}
		var f fact
		if err := json.Unmarshal(data[whole:whole+int64(end)], &f); err != nil {
			return whole, nil // a crash in the middle of a write: nothing after it was acted upon
		}
		j.facts.add(f)
		whole += int64(end) + 1
	}
}

// record makes facts part of the journal. When it returns nil, those that must
// survive a crash are on disk.
func (j *journal) record(news ...fact) error {
	var lines bytes.Buffer
	durable := false
	for _, f := range news {
		if err := writeLine(&lines, f); err != nil {
			return fmt.Errorf("recording in journal: %w", err)
		}
		durable = durable || f.durable()
	}
	if _, err := j.file.Write(lines.Bytes()); err != nil {
		// Half a line in the middle would hide all that follows it.
		return errors.Join(fmt.Errorf("recording in journal: %w", err), j.file.Truncate(j.size), seekEnd(j.file))
	}
	j.size += int64(lines.Len())
	if durable {
		if err := j.file.Sync(); err != nil {
			return fmt.Errorf("recording in journal: %w", err)
		}
	}
	for _, f := range news {
		j.facts.add(f)
	}
	if j.size > j.limit {
		return j.compact()
	}
	return nil
}

// compact replaces the file by one that says the same in fewer lines.
func (j *journal) compact() error {
	j.facts.forgetOldest()
	var lines bytes.Buffer
	for _, f := range j.facts.list() {
		if err := writeLine(&lines, f); err != nil {
			return fmt.Errorf("compacting journal: %w", err)
		}
	}
	next := j.path + ".new"
	file, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("compacting journal: %w", err)
	}
	_, err = file.Write(lines.Bytes())
	if err := errors.Join(err, file.Sync(), os.Rename(next, j.path), wholefile.SyncDir(filepath.Dir(j.path))); err != nil {
		return errors.Join(fmt.Errorf("compacting journal: %w", err), file.Close())
	}
	old := j.file
	j.file, j.size = file, int64(lines.Len())
	j.limit = max(journalLimit, 2*j.size)
	return old.Close()
}

func (j *journal) close() error { return j.file.Close() }

func writeLine(to *bytes.Buffer, f fact) error {
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	to.Write(append(line, '\n'))
	return nil
}

func seekEnd(file *os.File) error {
	_, err := file.Seek(0, io.SeekEnd)
	return err
}
