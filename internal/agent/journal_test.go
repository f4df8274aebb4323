package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"muster.dev/muster/internal/podplan"
	"muster.dev/muster/internal/reason"
)

var journalEpoch = time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)

func ended(container string, number int) fact {
	at := journalEpoch.Add(time.Duration(number) * time.Minute)
	return fact{Attempt: &podplan.Attempt{
		Container: container, Number: number, ID: fmt.Sprintf("%s-%d", container, number),
		State: podplan.RunExited, CreatedAt: at, FinishedAt: at.Add(time.Second), ExitCode: 1,
	}}
}

func openTestJournal(t *testing.T, path string) *journal {
	t.Helper()
	j, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.close() }) // closing twice is how some tests crash it
	return j
}

func TestJournalSurvivesACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "uid", "journal")
	j := openTestJournal(t, path)
	facts := []fact{
		{Admitted: true}, {Sandbox: 2}, ended("a", 0), ended("a", 1),
		{Terminating: &podplan.Termination{Since: journalEpoch, Grace: time.Minute}},
		{Rejected: &reason.Reason{Code: reason.OutOfCPU, Asked: "2", Free: "1"}},
	}
	for _, f := range facts {
		if err := j.record(f); err != nil {
			t.Fatal(err)
		}
	}
	want := j.facts.list()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A crash cuts the file anywhere: what was whole before the cut stays, and what
	// comes after reopening is not lost behind the torn line.
	for cut := range len(text) + 1 {
		torn := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(torn, text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		again := openTestJournal(t, torn)
		if err := again.record(ended("z", 9)); err != nil {
			t.Fatal(err)
		}
		third := openTestJournal(t, torn)
		if _, ok := third.facts.attempts["z-9"]; !ok {
			t.Fatalf("cut at %d: what was recorded after the crash is lost", cut)
		}
		if cut == len(text) {
			delete(third.facts.attempts, "z-9")
			if diff := cmp.Diff(want, third.facts.list()); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		}
		if err := third.close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestJournalStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := openTestJournal(t, path)
	const runs = 3000
	for number := range runs {
		if err := j.record(ended("a", number), ended("b", number)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 2*journalLimit {
		t.Errorf("the journal is %d bytes after %d runs", info.Size(), runs)
	}
	again := openTestJournal(t, path)
	for _, container := range []string{"a", "b"} {
		for number := runs - attemptsKept; number < runs; number++ {
			if _, ok := again.facts.attempts[fmt.Sprintf("%s-%d", container, number)]; !ok {
				t.Errorf("run %d of %s is forgotten", number, container)
			}
		}
	}
}
