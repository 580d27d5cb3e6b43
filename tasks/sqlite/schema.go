package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// migrations turn a state of version n-1 into one of version n. They are never changed, since every later
// runnel must be able to read the state of a released one.
//
// A task's output is in the table log, in extents (partials.Extent) that do not overlap. keeper is the lease
// of the process that runs the task, NULL once it has ended. Times are nanoseconds since 1970.
var migrations = []string{`

CREATE TABLE task (
	number    INTEGER PRIMARY KEY AUTOINCREMENT,
	id        TEXT NOT NULL UNIQUE,
	owner     TEXT NOT NULL,
	tool      TEXT NOT NULL,
	status    TEXT NOT NULL,
	message   TEXT NOT NULL,
	created   INTEGER NOT NULL,
	updated   INTEGER NOT NULL,
	ttl       INTEGER NOT NULL,
	expires   INTEGER NOT NULL,
	keeper    TEXT,
	asked     INTEGER NOT NULL DEFAULT 0, -- 1: somebody asks the keeper to cancel the task
	outcome   BLOB,
	merge     INTEGER NOT NULL,            -- 1: the result is the merged segments (SEP-1905)
	variables BLOB,
	work      BLOB                        -- of a detached task: its supervisor, as JSON
) STRICT;
CREATE INDEX task_owner ON task (owner, number);
CREATE INDEX task_expires ON task (expires);
CREATE INDEX task_keeper ON task (keeper) WHERE keeper IS NOT NULL;
CREATE TABLE log (
	task  INTEGER NOT NULL,
	start INTEGER NOT NULL,
	stop  INTEGER NOT NULL,
	marks BLOB NOT NULL,
	data  BLOB NOT NULL,
	UNIQUE (task, start)
) STRICT;
CREATE TABLE segment ( -- the numbers that SEP-1905 has given to the output
	task  INTEGER NOT NULL,
	first INTEGER NOT NULL, -- of the numbers in ends
	ends  BLOB NOT NULL,    -- where the segments end in the log: differences, as varints
	UNIQUE (task, first)
) STRICT;
`, `
CREATE INDEX task_ended ON task (updated) WHERE keeper IS NULL; -- what ended first is deleted first
`, `
ALTER TABLE task ADD COLUMN fetched INTEGER NOT NULL DEFAULT 0; -- 1: a client has got the result
`, `
ALTER TABLE task ADD COLUMN arguments BLOB; -- of the call, NULL if they are not known
`, `
ALTER TABLE task ADD COLUMN client TEXT NOT NULL DEFAULT ''; -- the name of the host that made the call
`, `
CREATE TABLE session ( -- of an HTTP client (tasks.Sessions)
	owner   TEXT NOT NULL,
	id      TEXT NOT NULL,
	data    BLOB NOT NULL,
	version INTEGER NOT NULL,
	expires INTEGER NOT NULL,
	PRIMARY KEY (owner, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_expires ON session (expires);
`}

// schemaVersion returns the number of migrations that a state has had. It refuses the state of a newer
// runnel.
func schemaVersion(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (version int, err error) {
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return 0, err
	}
	if version < 0 {
		return 0, fmt.Errorf("its version is %d: another program has written it; use another directory "+
			"(--state)", version)
	}
	if version > len(migrations) {
		return 0, fmt.Errorf("it is of version %d, of a newer runnel than this one, which knows %d; use "+
			"that one, or another directory (--state)", version, len(migrations))
	}
	return version, nil
}

// setUp turns a new database file into a state, and brings an older state to the newest version. It runs
// under the lock of the directory, and returns how many pages the limit of the state allows.
func setUp(ctx context.Context, c *sql.Conn, o Options) (mostPages int, err error) {
	var vacuum int
	if err := c.QueryRowContext(ctx, "PRAGMA auto_vacuum").Scan(&vacuum); err != nil {
		return 0, err
	}
	const incremental = 2
	if vacuum != incremental { // setting it again would wait for the writing process, which may be stopped
		for _, pragma := range []string{
			// Heeded only then, too; output comes in long rows, and each page costs three system calls.
			"PRAGMA page_size = 8192",
			"PRAGMA auto_vacuum = INCREMENTAL", // heeded only before the first table is made
		} {
			if _, err := c.ExecContext(ctx, pragma); err != nil {
				return 0, err
			}
		}
	}
	for _, pragma := range []string{
		// Readers and a writer do not wait for each other, and kill -9 loses nothing.
		"PRAGMA journal_mode = WAL",
		"PRAGMA journal_size_limit = 16777216", // leastWAL: a longer one is cut when it is empty
		// 4 MiB: it waits for the disk, but no longer than a flood fills what may be pending.
		"PRAGMA wal_autocheckpoint = 512",
	} {
		if _, err := c.ExecContext(ctx, pragma); err != nil {
			return 0, err
		}
	}
	if err := migrate(ctx, c); err != nil {
		return 0, err
	}
	var page int64
	if err := c.QueryRowContext(ctx, "PRAGMA page_size").Scan(&page); err != nil {
		return 0, err
	}
	return int(o.MaxState / page), nil
}

// migrate brings the state to the newest version.
func migrate(ctx context.Context, c *sql.Conn) error {
	version, err := schemaVersion(ctx, c)
	if err != nil {
		return err
	}
	for ; version < len(migrations); version++ {
		step := fmt.Sprintf("BEGIN IMMEDIATE; %s; PRAGMA user_version = %d; COMMIT",
			migrations[version], version+1)
		if _, err := c.ExecContext(ctx, step); err != nil {
			_, _ = c.ExecContext(ctx, "ROLLBACK")
			return fmt.Errorf("migrating to version %d: %w", version+1, err)
		}
	}
	return nil
}
