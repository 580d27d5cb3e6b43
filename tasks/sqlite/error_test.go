package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// A state that is removed while it is used takes no task any more, and no result: nobody would find them. It
// says so.
func TestSQLiteIsRemoved(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"replaced": func(dir string) error {
			other := filepath.Join(dir, "other")
			return errors.Join(os.WriteFile(other, nil, 0o600),
				os.Rename(other, filepath.Join(dir, databaseFile)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, Options{})
			r := statetest.NewRunner(t, run.Options{State: s})
			done := make(chan struct{})
			running := statetest.Start(t, r, func(context.Context, *run.Run) run.Done {
				<-done
				return run.Done{Result: mcp.Result("fine")}
			})
			running.Delivered()
			if err := remove(s.o.Dir); err != nil {
				t.Fatal(err)
			}
			_, err := r.Start(t.Context(), run.Spec{Tool: "test", Handle: true, Work: statetest.UntilDone})
			if err == nil || !strings.Contains(err.Error(), tasks.ErrRemoved.Error()) ||
				!strings.Contains(err.Error(), s.o.Dir) {
				t.Errorf("a new task: %v", err)
			}
			close(done)
			<-running.Ended()
			if got, err := r.Get(t.Context(), running.ID()); err != nil || got.Status != mcp.TaskFailed ||
				!strings.Contains(got.StatusMessage, tasks.ErrRemoved.Error()) {
				t.Errorf("a task that ends: %+v, %v", got, err)
			}
			if err := running.Settled(t.Context()); !errors.Is(err, tasks.ErrRemoved) {
				t.Errorf("its end: %v", err)
			}
		})
	}
}

func TestSQLiteWordsItsTroubles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	garbage, folder := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, databaseFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(garbage, databaseFile), bytes.Repeat([]byte("garbage "), 1000),
		0o600); err != nil {
		t.Fatal(err)
	}
	ofVersion := func(version int) (dir string) {
		dir = t.TempDir()
		statetest.Put(t, openStore(t, Options{Dir: dir}), statetest.Working("a"))
		db, err := sql.Open("sqlite", dsn(filepath.Join(dir, databaseFile)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
			t.Fatal(err)
		}
		_ = db.Close()
		return dir
	}
	newer, foreign := ofVersion(1000), ofVersion(-5)
	long := t.TempDir() + strings.Repeat("/long", 100) // SQLite takes 512 bytes
	for dir, says := range map[string]string{
		filepath.Join(file, "state"): "not a directory", garbage: "damaged", newer: "newer runnel",
		foreign: "version is -5", folder: "is a directory", long: "its path longer",
	} {
		s := openStore(t, Options{Dir: dir})
		if err := s.Open("local").Put(t.Context(), statetest.Working("a")); err == nil ||
			!strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", dir, err)
		}
		_, err := s.Open("local").Get(t.Context(), "a")
		var told *rpc.Error // what else the client gets is "internal error"
		if err := tasks.WireError(err); !errors.As(err, &told) || !strings.Contains(told.Message, says) ||
			!strings.Contains(told.Message, dir) {
			t.Errorf("%s: a client is told %v", dir, err)
		}
	}
	if _, err := Check(t.Context(), newer); err == nil || !strings.Contains(err.Error(), "newer runnel") {
		t.Errorf("a check of the state of a newer runnel finds %v", err)
	}
}

// A runnel that is killed while it makes its state leaves an empty file, with which the next one goes on.
func TestCheckSQLiteOfAnEmptyFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, databaseFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Check(t.Context(), dir); err != nil || r.Tasks != 0 || r.Damage != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// An error says once what is wrong, with what to do.
func TestExplainedOnce(t *testing.T) {
	full := explain(fmt.Errorf("writing: %w", syscall.ENOSPC))
	want := "writing: no space left on device; " + freeDisk
	if again := explain(fmt.Errorf("opening: %w", full)); again.Error() != "opening: "+want ||
		!errors.Is(again, syscall.ENOSPC) {
		t.Errorf("%v, want opening: %s", again, want)
	}
	if err := explain(errors.New("other")); err.Error() != "other" {
		t.Errorf("%v", err)
	}
}
