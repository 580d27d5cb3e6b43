package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"runnel/internal/system"
	"runnel/partials"
)

// Report is the result of Check.
type Report struct {
	Bytes     int64    // size of the database, including what is not in its file yet
	Tasks     int      // all owners'
	Working   int      // tasks that have not ended
	Processes int      // those that use the state
	Open      []string // files that users other than their owner may read
	Damage    []string // SQLite's findings; nil = none
	Unsound   []string // runnel's findings in single tasks, where SQLite finds nothing; nil = none
}

// Check examines the state in a directory without changing it, even while it is in use. It returns
// fs.ErrNotExist if the directory has no state, and another error for a state that runnel would not use.
func Check(ctx context.Context, dir string) (r Report, err error) {
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
		case !info.IsDir(): // seeing names does no harm
			r.Bytes += info.Size()
			if rights, readable := system.ReadableByOthers(path, info); readable {
				r.Open = append(r.Open, fmt.Sprintf("%s (%s)", path, rights))
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
	d := &database{read: db, damaged: map[int64]bool{}}
	version, err := schemaVersion(ctx, db)
	if err != nil {
		return r, explain(err)
	}
	r.Damage, err = column[string](db.QueryContext(ctx, "PRAGMA quick_check(10)"))
	if slices.Equal(r.Damage, []string{"ok"}) {
		r.Damage = nil
	}
	if err == nil && r.Damage == nil && version == len(migrations) {
		r.Unsound, err = d.damage(ctx)
	}
	// Version 0 means that a runnel ended while it made the state, and the next one goes on.
	if err == nil && r.Damage == nil && version > 0 {
		err = db.QueryRowContext(ctx, "SELECT count(*), count(keeper) FROM task WHERE expires > 0").
			Scan(&r.Tasks, &r.Working)
	}
	return r, explain(err)
}

// maxDamage is how many findings are reported.
const maxDamage = 10

// damage reads all tasks as a viewer would, and returns what is wrong with them.
func (d *database) damage(ctx context.Context) (found []string, err error) {
	err = d.each(ctx, func(scan func(...any) error) error {
		var outcome, variables []byte
		r, err := scanTask(scan, &outcome, &variables)
		if err != nil || len(found) == maxDamage {
			return err
		}
		r.decode(outcome, variables)
		r.end = math.MaxInt64
		if _, err := d.output(&r).segmentsOf(ctx, &r); err != nil {
			return err
		}
		if err := d.checkOutput(ctx, &r); err != nil {
			return err
		}
		if r.damage != "" {
			found = append(found, fmt.Sprintf("task %s: %s", r.ID, r.damage))
		}
		return nil
	}, "SELECT "+taskColumns+", outcome, variables FROM task WHERE expires > 0 ORDER BY number")
	return found, err
}

// checkOutput finds damage in a task's output.
func (d *database) checkOutput(ctx context.Context, r *row) error {
	var last int64
	return d.each(ctx, func(scan func(...any) error) error {
		var s partials.Extent
		var stop int64
		if err := scan(&s.Start, &stop, &s.Marks, &s.Data); err != nil {
			return err
		}
		if err := checkExtent(&s, stop, last); err != nil {
			r.fail(fmt.Errorf("its output: %w", err))
			return nil
		}
		last = s.End()
		return nil
	}, "SELECT start, stop, marks, data FROM log WHERE task = ? ORDER BY start", r.number)
}
