package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// A reader that has stopped in the middle does not let the state grow without bound. Output and ends of tasks
// wait until it goes on, and nothing is lost.
func TestSQLiteWithAStoppedReader(t *testing.T) {
	const maxState = 64 << 20
	s := openStore(t, Options{MaxState: maxState})
	r := statetest.NewRunner(t, run.Options{State: s})
	statetest.Put(t, s, statetest.Working("a"), statetest.Working("b"))
	file := filepath.Join(s.Dir(), databaseFile)
	reader, err := sql.Open("sqlite", dsn(file, "query_only(1)"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	rows, err := reader.Query("SELECT number FROM task")
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	defer rows.Close()

	line := []byte(strings.Repeat("x", 32<<10-1) + "\n")
	const lines = 1200 // 37 MiB
	flood := statetest.Start(t, r, func(ctx context.Context, running *run.Run) run.Done {
		for range lines {
			if err := running.Log().Append(ctx, partials.Chunk{Data: line}); err != nil {
				return run.Done{Err: err}
			}
		}
		return run.Done{Result: mcp.Result("flooded")}
	})
	flood.Delivered()
	refused := func() bool {
		began := time.Now()
		err := s.Open("local").Put(t.Context(), statetest.Working(tasks.NewID(s.o.Now())))
		if err != nil && (!strings.Contains(err.Error(), "kill -CONT") ||
			!strings.Contains(err.Error(), file+"-wal")) {
			t.Errorf("refused: %v", err)
		}
		if took := time.Since(began); took >= busyTimeout { // it may wait for output that waits
			t.Errorf("refused after %v", took)
		}
		return err != nil
	}
	statetest.Eventually(t, func() bool { return flood.Log().Size() > 10<<20 })
	statetest.Eventually(t, func() bool {
		select {
		case <-flood.Ended():
			t.Fatal("it is not bounded: all was written")
		default:
		}
		return refused()
	})
	info, err := os.Stat(file + "-wal")
	if err != nil || info.Size() > longestWAL(maxState)+(8<<20) {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
	if status := flood.Task().Status; status != mcp.TaskWorking {
		t.Errorf("it is %s", status)
	}
	if task := statetest.Get(t, s, "a"); task.Status != mcp.TaskWorking { // what is there can be read
		t.Errorf("a: %s", task.Status)
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	<-flood.Ended()
	if task := statetest.Get(t, s, flood.ID()); task.Status != mcp.TaskCompleted ||
		statetest.ReadAll(t, task.Log) != string(bytes.Repeat(line, lines)) {
		t.Errorf("it is %s, with %d bytes: %s", task.Status, task.Log.Size(), task.StatusMessage)
	}
	statetest.Put(t, s, statetest.Working("c"))
}
