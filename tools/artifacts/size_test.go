package artifacts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/sqlite"
	"runnel/tools/toolstest"
)

// stateOnDisk returns a runner whose state is on disk, and its directory.
func stateOnDisk(t *testing.T, most int64) (*run.Runner, string) {
	t.Helper()
	dir := t.TempDir()
	state := sqlite.New(sqlite.Options{Dir: dir, MaxState: most, Log: zerolog.Nop()})
	r := run.NewRunner(run.Options{State: state})
	t.Cleanup(func() {
		r.Close()
		if err := state.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, dir
}

// Large files pass through in pieces: memory stays as it is, and the state grows by the files, a third more for
// base64. RUNNEL_ARTIFACTS_MIB is how much they have, by default 32 MiB.
func TestLargeFiles(t *testing.T) {
	mib := 32
	if text := os.Getenv("RUNNEL_ARTIFACTS_MIB"); text != "" {
		var err error
		if mib, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	runner, state := stateOnDisk(t, 8<<30)
	piece := make([]byte, 1<<20)
	for i := range piece {
		piece[i] = byte(i * 7)
	}
	m := &maker{dir: dir, rules: rules(t, fmt.Sprintf(`{files: ["*"], maxBytes: %dMiB}`, mib)), make: func() {
		for n := range 4 {
			f, err := os.Create(filepath.Join(dir, fmt.Sprint(n)))
			if err != nil {
				t.Fatal(err)
			}
			for range mib / 4 {
				if _, err := f.Write(piece); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}}
	var before, most, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				if runtime.ReadMemStats(&now); now.HeapInuse > most.HeapInuse {
					most = now
				}
			}
		}
	}()
	began := time.Now()
	for range 2 {
		if got := summary(items(t, toolstest.CallBy(t, runner, m, nil).Content)); got != "0\n1\n2\n3" {
			t.Fatal(got)
		}
	}
	close(stop)
	<-stopped
	took := time.Since(began)
	set, err := runner.Files(t.Context(), m.id)
	if err != nil || len(set.Files) != 4 || set.Files[3].Size != int64(mib)<<18 {
		t.Fatalf("%+v, %v", set, err)
	}
	var stored int64
	entries, err := os.ReadDir(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.Name() == "runnel.db" {
			stored += info.Size()
		}
	}
	grown := int64(most.HeapInuse) - int64(before.HeapInuse)
	t.Logf("2 × %d MiB in %v: heap %d MiB more, state %d MiB", mib, took.Round(time.Millisecond), grown>>20,
		stored>>20)
	if grown > 64<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	if limit := int64(2*mib) << 20 * 3 / 2; stored > limit+16<<20 {
		t.Errorf("the state has %d MiB", stored>>20)
	}
}

// Files that the state has no room for are left out, and nothing of them stays; the call itself ends well.
func TestStateIsFull(t *testing.T) {
	dir := t.TempDir()
	runner, _ := stateOnDisk(t, 16<<20)
	m := &maker{dir: dir, rules: rules(t, `{files: ["*"], maxBytes: 64MiB}`), make: func() {
		write(t, dir, "large", make([]byte, 32<<20))
	}}
	for range 2 {
		r := toolstest.CallBy(t, runner, m, nil)
		if got := r.Text(); r.IsError || !strings.Contains(got, "storing the files of the task") {
			t.Errorf("%q", got)
		}
		if _, err := runner.Files(t.Context(), m.id); err != tasks.ErrNotFound {
			t.Errorf("files of it: %v", err)
		}
	}
}
