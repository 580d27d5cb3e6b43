package e2e

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runnel/tasks/sqlite"
)

// To list and to forget many tasks takes as long as they are many, and not the square of it.
func TestManyTasks(t *testing.T) {
	t.Parallel()
	const many = 30_000
	state := filepath.Join(t.TempDir(), "state")
	store := sqlite.New(sqlite.Options{Dir: state})
	if err := store.Recover(); err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	db, err := sql.Open("sqlite", filepath.Join(state, "runnel.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// As ids of one moment are: they begin alike. Neighbours are of two tools, since equal ones are shown in
	// one line.
	_, err = db.Exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO task (id, owner, tool, status, message, created, updated, ttl, expires, merge, outcome)
		SELECT printf('%04x%04x-', i >> 8, 0) || lower(hex(randomblob(4))), 'local', 'make' || (i % 2), 'completed', '', ?2, ?2, ?3, ?2 + ?3, 0, CAST('{"result":{"content":[]}}' AS BLOB) FROM n`,
		many, time.Now().UnixNano(), int64(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	builtProgram(t) // not on the clock
	for _, args := range [][]string{{"list"}, {"list", "-o", "json"}, {"prune", "--force"}} {
		began := time.Now()
		got := people(t, append(append([]string{"tasks"}, args...), "--state", state)...)
		took := time.Since(began)
		if got.code != exitFine {
			t.Fatalf("%q: exit code %d\n%s", args, got.code, got.stderr)
		}
		t.Logf("%q: %v", args, took)
		if most := time.Minute; took > most {
			t.Errorf("%q of %d tasks took %v, want less than %v", args, many, took, most)
		}
		if lines := strings.Count(got.stdout, "\n"); len(args) == 1 && lines != many+1 ||
			args[0] == "prune" && lines != many+1 {
			t.Errorf("%q: %d lines", args, lines)
		}
	}
	if got := people(t, "tasks", "list", "--state", state); got.stdout != "" {
		t.Errorf("left: %s", got.stdout)
	}
}
