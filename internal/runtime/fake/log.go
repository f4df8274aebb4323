package fake

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// writeLog appends lines to a log file in CRI's format; no path, no file.
func writeLog(path string, now time.Time, lines []string) error {
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making log directory: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("opening log: %w", err)
	}
	var text bytes.Buffer
	for _, line := range lines {
		fmt.Fprintf(&text, "%s stdout F %s\n", now.Format(time.RFC3339Nano), line)
	}
	_, err = file.Write(text.Bytes())
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("writing log: %w", err)
	}
	return nil
}
