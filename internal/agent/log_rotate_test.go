package agent

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"muster.dev/muster/internal/runtime"
)

// A log that is written to for ever keeps its newest part, in five files.
func TestBigLogsAreTurnedOver(t *testing.T) {
	inBubble(t, func(t *testing.T, n *testNode) {
		defer n.start(t)()
		pod := testPod(apps("main"))
		n.api.create(t, pod)
		n.await(t, pod, time.Minute, "Ready", ready)
		path := logLinks{pods: n.config.PodLogsDir}.log(pod, "main", 0)
		for round := range 8 {
			// The runtime in memory opens the file anew for every line, as if reopened.
			if err := os.WriteFile(path, bytes.Repeat([]byte{byte('a' + round)}, logBytes), 0o640); err != nil {
				t.Fatal(err)
			}
			time.Sleep(logCheck + time.Second)
			synctest.Wait()
		}
		files, err := filepath.Glob(path + "*")
		if err != nil {
			t.Fatal(err)
		}
		turned := files[len(files)-(logFiles-1):]
		if len(files) > logFiles {
			t.Errorf("files %v", files)
		}
		for i, want := range []byte("efgh") {
			if got := firstByte(t, turned[i]); got != want {
				t.Errorf("%s holds %q, want %q", filepath.Base(turned[i]), got, want)
			}
		}
	})
}

func firstByte(t *testing.T, path string) byte {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var from io.Reader = file
	if strings.HasSuffix(path, compressed) {
		if from, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	one := make([]byte, 1)
	if _, err := io.ReadFull(from, one); err != nil {
		t.Fatal(err)
	}
	return one[0]
}

// A runtime that cannot reopen the log goes on writing to the file it has, so that
// gets its name back.
func TestLogThatCannotBeReopenedKeepsItsName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(path, make([]byte, logBytes), 0o640); err != nil {
		t.Fatal(err)
	}
	p := newPods(&shared{runtime: cannotReopen{}, clock: clock.RealClock{}})
	if err := p.rotateLog(t.Context(), path, "id"); err == nil {
		t.Error("no error")
	}
	if info, err := os.Stat(path); err != nil || info.Size() != logBytes {
		t.Errorf("the log is %v, %v", info, err)
	}
}

type cannotReopen struct{ runtime.Runtime }

func (cannotReopen) ReopenLog(context.Context, string) error { return errors.New("no") }
