package sqlite

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"runnel/rpc/mcp"
	"runnel/tasks/statetest"
)

// States that earlier runnels have written, one of each version, are found by this one: testdata has them, as
// the binaries of commits
// f3ec7eb (version 1), faec1cc (2), bc6407a (3) and those that added versions 4 to 6 have left them after a
// run of seq 1 3 and one of false.
func TestStatesOfEveryVersion(t *testing.T) {
	for version := 1; version <= len(migrations); version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			packed, err := os.ReadFile(fmt.Sprintf("testdata/version%d.db.gz", version))
			if err != nil {
				t.Fatalf("a new version needs a state of the one before it: %v", err)
			}
			unpacked, err := gzip.NewReader(bytes.NewReader(packed))
			if err != nil {
				t.Fatal(err)
			}
			file, err := io.ReadAll(unpacked)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			path := filepath.Join(dir, databaseFile)
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("sqlite", dsn(path))
			if err != nil {
				t.Fatal(err)
			}
			var found int
			if err := db.QueryRow("PRAGMA user_version").Scan(&found); err != nil || found != version {
				t.Fatalf("it is of version %d, %v", found, err)
			}
			// The tasks of the old file expired long ago.
			if _, err := db.Exec("UPDATE task SET expires = 1 << 62, ttl = 1 << 62"); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}

			s := openStore(t, Options{Dir: dir})
			ids := statetest.IDs(t, s, 10)
			if len(ids) != 2 {
				t.Fatalf("it has the tasks %v", ids)
			}
			lines, fails := statetest.Get(t, s, ids[0]), statetest.Get(t, s, ids[1])
			if lines.Tool != "lines" || lines.Status != mcp.TaskCompleted ||
				statetest.ReadAll(t, lines.Log) != "1\n2\n3\n" || lines.Outcome.Result == nil {
				t.Errorf("%+v", lines)
			}
			if fails.Tool != "fails" || fails.Status != mcp.TaskFailed || fails.Outcome.Result == nil ||
				!fails.Outcome.Result.IsError {
				t.Errorf("%+v", fails)
			}
			if err := s.Open("local").MarkFetched(t.Context(), ids[0]); err != nil {
				t.Error(err)
			}
			statetest.Put(t, s, statetest.Working("new"))
			if got := statetest.IDs(t, s, 10); len(got) != 3 {
				t.Errorf("it has the tasks %v", got)
			}
		})
	}
}
