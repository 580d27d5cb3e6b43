package tasks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// StateReport is what CheckSQLite finds in a directory.
type StateReport struct {
	Bytes     int64    // of the database, with what is not in its file yet
	Tasks     int      // of all owners
	Working   int      // of them have not ended
	Processes int      // that use the state
	Open      []string // files that others than their owner may read
	Damage    []string // what SQLite finds wrong; nil = nothing
}

// CheckSQLite looks at the state in a directory without changing it: it may be in use. fs.ErrNotExist = there is none. It
// fails for one that a runnel would not use.
func CheckSQLite(ctx context.Context, dir string) (r StateReport, err error) {
	file := filepath.Join(dir, databaseFile)
	if _, err := os.Stat(file); err != nil {
		return r, err
	}
	if err := checkAccess(dir); err != nil {
		return r, err
	}
	for _, name := range stateFiles {
		path := filepath.Join(dir, name)
		switch info, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return r, err
		case !info.IsDir(): // to see names does no harm
			r.Bytes += info.Size()
			if info.Mode().Perm()&0o077 != 0 {
				r.Open = append(r.Open, fmt.Sprintf("%s (%v)", path, info.Mode()))
			}
		}
	}
	leases, err := os.ReadDir(filepath.Join(dir, leaseDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	for _, e := range leases {
		if leaseHeld(filepath.Join(dir, leaseDir), e.Name()) {
			r.Processes++
		}
	}
	db, err := sql.Open("sqlite", dsn(file, "query_only(1)"))
	if err != nil {
		return r, err
	}
	defer func() { _ = db.Close() }() // it has only been read
	d := &database{read: db}
	version, err := schemaVersion(ctx, db)
	if err != nil {
		return r, explain(err)
	}
	err = d.each(ctx, func(scan func(...any) error) error {
		var says string
		err := scan(&says)
		if says != "ok" {
			r.Damage = append(r.Damage, says)
		}
		return err
	}, "PRAGMA quick_check(10)")
	if err == nil && r.Damage == nil && version > 0 { // else a runnel ended while it made the state, and the next one goes on
		err = explain(db.QueryRowContext(ctx, "SELECT count(*), count(keeper) FROM task WHERE expires >= 0").Scan(&r.Tasks, &r.Working))
	}
	return r, err
}
