package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"runnel/partials"
)

// Report is what Check finds in a directory.
type Report struct {
	Bytes     int64    // size of the database, including what is not in its file yet
	Tasks     int      // all owners'
	Working   int      // tasks that have not ended
	Processes int      // those that use the state
	Open      []string // files that others than their owner may read
	Damage    []string // SQLite's findings; nil = none
	Unsound   []string // runnel's findings in single tasks, where SQLite finds nothing; nil = none
}

// Check looks at the state in a directory without changing it: it may be in use. fs.ErrNotExist = there is none. It
// fails for one that a runnel would not use.
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
	if err == nil && r.Damage == nil && version == len(migrations) {
		r.Unsound, err = d.damage(ctx)
	}
	if err == nil && r.Damage == nil && version > 0 { // else a runnel ended while it made the state, and the next one goes on
		err = explain(db.QueryRowContext(ctx, "SELECT count(*), count(keeper) FROM task WHERE expires > 0").Scan(&r.Tasks, &r.Working))
	}
	return r, err
}

// maxDamage is how many findings are told.
const maxDamage = 10

// damage reads all rows as those are read who look at tasks, and tells what is wrong with them.
func (d *database) damage(ctx context.Context) (found []string, err error) {
	told := map[string]bool{}
	tell := func(id, why string) {
		if !told[id] && len(found) < maxDamage {
			told[id] = true
			found = append(found, fmt.Sprintf("task %s: %s", id, why))
		}
	}
	err = d.each(ctx, func(scan func(...any) error) error {
		var outcome, variables []byte
		r, err := scanTask(scan, &outcome, &variables)
		if err != nil {
			return err
		}
		if r.decode(outcome, variables); r.damage != "" {
			tell(r.ID, r.damage)
		}
		return nil
	}, "SELECT "+taskColumns+", outcome, variables FROM task WHERE expires > 0")
	if err != nil {
		return found, err
	}
	var id string // the task whose rows are read
	var last int64
	err = d.each(ctx, func(scan func(...any) error) error {
		var s partials.Extent
		var next string
		var stop int64
		if err := scan(&next, &s.Start, &stop, &s.Marks, &s.Data); err != nil {
			return err
		}
		if next != id {
			id, last = next, 0
		}
		if err := checkExtent(&s, stop, last); err != nil {
			tell(id, "its output: "+err.Error())
			return nil
		}
		last = s.End()
		return nil
	}, "SELECT id, start, stop, marks, data FROM log JOIN task ON task = number WHERE expires > 0 ORDER BY task, start")
	if err != nil {
		return found, err
	}
	id = ""
	n := 0
	err = d.each(ctx, func(scan func(...any) error) error {
		var next string
		var first int64
		var stored []byte
		if err := scan(&next, &first, &stored); err != nil {
			return err
		}
		if next != id {
			id, n, last = next, 0, 0
		}
		ends, err := decodeSegments(first, stored, n, last)
		if err != nil {
			tell(id, err.Error())
		} else if n += len(ends); len(ends) > 0 {
			last = ends[len(ends)-1]
		}
		return nil
	}, "SELECT id, first, ends FROM segment JOIN task ON task = number WHERE expires > 0 ORDER BY task, first")
	return found, err
}
