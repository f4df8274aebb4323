package agent

import (
	"bytes"
	"io"
	"os"

	v1 "k8s.io/api/core/v1"

	"muster.dev/muster/internal/agent/spec"
	"muster.dev/muster/internal/runtime"
)

// The limits of a termination message: of the file, and of the log that stands
// in for it.
const (
	messageBytes    = 4096
	logMessageBytes = 2048
	logMessageLines = 80
)

// terminationMessage is what an ended container left to be shown in its status.
func (w *worker) terminationMessage(pod *v1.Pod, c runtime.Container) string {
	message, err := tail(c.Annotations[spec.TerminationFileAnnotation], messageBytes)
	if err != nil && !os.IsNotExist(err) {
		w.log.Warn("Reading a termination message failed", "container", c.Name, "err", err)
	}
	policy := v1.TerminationMessagePolicy(c.Annotations[spec.TerminationMessagePolicyAnnotation])
	if len(message) > 0 || policy != v1.TerminationMessageFallbackToLogsOnError || c.ExitCode == 0 {
		return string(message)
	}
	lines, err := tail(w.links.log(pod, c.Name, int(c.Attempt)), 8*logMessageBytes)
	if err != nil {
		w.log.Warn("Reading the log for a termination message failed", "container", c.Name, "err", err)
	}
	return logMessage(lines)
}

// tail is the last bytes of a file; nothing for no path.
func tail(path string, limit int64) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if from := info.Size() - limit; from > 0 {
		if _, err := file.Seek(from, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(file, limit))
}

// logMessage is the end of a log in CRI's format (time, stream, flag, text), without
// what CRI put before each line.
func logMessage(log []byte) string {
	var text bytes.Buffer
	lines := bytes.SplitAfter(log, []byte("\n"))
	for _, line := range lines[max(0, len(lines)-logMessageLines-1):] {
		fields := bytes.SplitN(line, []byte(" "), 4)
		if len(fields) < 4 {
			continue // cut off at the front
		}
		rest := fields[3]
		if string(fields[2]) == "P" { // the line goes on in the next entry
			rest = bytes.TrimSuffix(rest, []byte("\n"))
		}
		text.Write(rest)
	}
	out := text.Bytes()
	return string(bytes.ToValidUTF8(out[max(0, len(out)-logMessageBytes):], nil))
}
