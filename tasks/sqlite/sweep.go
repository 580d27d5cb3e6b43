package sqlite

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"runnel/internal/pause"
	"runnel/tasks"
)

const (
	// sweepInterval is how long an expired task may take up space.
	sweepInterval = 30 * time.Second
	// sweepRest is the shortest time between two sweeps.
	sweepRest = time.Second
	// leastFree is the number of free pages, 32 MiB, from which on they are given back. Fewer are left for
	// new tasks.
	leastFree = 4096
	// vacuumPages is how many pages are given back at a time: few, so that others can write in between, and
	// the write-ahead log fits on a nearly full disk.
	vacuumPages = 64
)

// sweepAll keeps the state in order: it ends the tasks of processes that are gone, deletes expired tasks but
// those that the history keeps and, if the state is too large, those that ended first. Each process has a
// sweeper. They do not disturb each other, because every step is a transaction that checks again.
func (d *database) sweepAll(ctx context.Context) {
	for {
		if err := d.sweep(ctx); err != nil && ctx.Err() == nil {
			d.o.Log.Error().Err(err).Msg("sweeping the state")
		}
		if !pause.For(ctx, sweepRest) {
			return
		}
		select {
		case <-d.w.sweepSoon:
		case <-time.After(sweepInterval):
		case <-ctx.Done():
			return
		}
	}
}

func (d *database) sweep(ctx context.Context) error {
	if err := d.recoverAll(ctx); err != nil {
		return err
	}
	d.lease.touch()
	dropDeadLeases(filepath.Join(d.o.Dir, leaseDir), func(name string) bool { return d.keeps(ctx, name) })
	if err := d.remember(ctx); err != nil {
		return err
	}
	if err := d.shortenHistory(ctx); err != nil {
		return err
	}
	if err := d.dropExpired(ctx); err != nil {
		return err
	}
	if err := d.evict(ctx); err != nil {
		return err
	}
	return d.shrink(ctx, false)
}

// evict deletes the tasks that ended first until an eighth of the state is free; those that a task which goes
// on may still read come last.
func (d *database) evict(ctx context.Context) error {
	for {
		used, err := d.used(ctx)
		if err != nil || used <= d.o.MaxState-d.o.MaxState/8 {
			return err
		}
		n, err := d.drop(ctx, endedFirst)
		if err == nil && n == 0 {
			n, err = d.drop(ctx, endedNeeded)
		}
		if err != nil {
			return err
		}
		if n == 0 {
			d.o.Log.Warn().Int64("bytes", used).Msg("the state is nearly full of tasks that have not ended")
			return nil
		}
	}
}

// used returns how many bytes of the database file are in use.
func (d *database) used(ctx context.Context) (int64, error) {
	var used int64
	err := d.read.QueryRowContext(ctx,
		`SELECT (page_count - freelist_count) * page_size FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()`).Scan(&used)
	return used, explain(err)
}

// dropExpired deletes all expired tasks.
func (d *database) dropExpired(ctx context.Context) error {
	for {
		// A reader looks first, since even a transaction that deletes nothing would wait for other writers.
		some, err := d.anyExpired(ctx)
		if err != nil || !some {
			return err
		}
		if _, err := d.drop(ctx, expired, d.o.Now().UnixNano()); err != nil {
			return err
		}
	}
}

func (d *database) anyExpired(ctx context.Context) (some bool, err error) {
	err = d.read.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM task WHERE "+expired+")",
		d.o.Now().UnixNano()).Scan(&some)
	return some, explain(err)
}

// drop deletes some of the tasks that match a condition, and returns how many it found.
func (d *database) drop(ctx context.Context, which string, args ...any) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	err = d.w.do(job{do: func(tx *transaction) error {
		n, err = tx.drop(which, args...)
		return err
	}})
	return n, err
}

// shrink gives free pages back to the file system, if there are many of them, or always.
func (d *database) shrink(ctx context.Context, always bool) error {
	for before := int64(math.MaxInt64); ctx.Err() == nil; always = true {
		var free, all int64
		if err := d.read.QueryRowContext(ctx,
			"SELECT freelist_count, page_count FROM pragma_freelist_count(), pragma_page_count()").
			Scan(&free, &all); err != nil {
			return explain(err)
		}
		if free == 0 || free >= before || !always && (free < leastFree || free < all/4) {
			return nil // a file that somebody has restored from a dump gives nothing back
		}
		before = free
		if err := d.w.do(job{do: func(tx *transaction) error {
			rows, err := tx.query("PRAGMA incremental_vacuum(" + strconv.Itoa(vacuumPages) + ")")
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() { // a page a step
			}
			return rows.Err()
		}}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Find returns the ids of tasks that begin with a text, most ids at most.
func (s *store) Find(ctx context.Context, prefix string, most int) ([]string, error) {
	d, err := s.open()
	if err != nil {
		return nil, err
	}
	ids, err := column[string](d.query(ctx,
		"SELECT id FROM task WHERE owner = ? AND substr(id, 1, length(?2)) = ?2 AND id NOT GLOB '*-files' AND "+d.o.visible()+" ORDER BY number LIMIT ?",
		s.owner, prefix, d.o.Now().UnixNano(), most))
	return ids, explain(err)
}

// Forget deletes the tasks that tasks.Prune names, and returns them as List does; kept is the number of those
// whose result has not been fetched.
func (s *store) Forget(ctx context.Context, ended time.Time,
	force bool) (gone []tasks.Task, kept int, err error) {
	d, err := s.open()
	if err != nil {
		return nil, 0, err
	}
	var all []tasks.Prunable
	numbers := map[string]int64{}
	err = d.each(ctx, func(scan func(...any) error) error {
		var t tasks.Prunable
		var variables []byte
		r, err := scanTask(scan, &t.Fetched, &variables) // a call counts as fetched: it has its answer
		t.Task, t.Above = r.Task, tasks.Above(variables)
		all, numbers[r.ID] = append(all, t), r.number
		return err
	}, "SELECT "+taskColumns+", fetched OR expires < 0, variables FROM task WHERE owner = ? AND "+
		d.o.visible()+" ORDER BY number", s.owner, d.o.Now().UnixNano())
	if err != nil {
		return nil, 0, err
	}
	named, kept := tasks.Prune(all, ended, force)
	for some := range slices.Chunk(named, forgetTasks) {
		var list []string
		for i := range some {
			for _, id := range []string{some[i].ID, tasks.FilesID(some[i].ID)} {
				if n, has := numbers[id]; has {
					list = append(list, strconv.FormatInt(n, 10))
				}
			}
		}
		for n := 1; n > 0; {
			if n, err = d.drop(ctx, withNumber, "["+strings.Join(list, ",")+"]"); err != nil {
				return gone, kept, err
			}
		}
		gone = append(gone, some...)
	}
	return gone, kept, d.shrink(ctx, true)
}

// forgetTasks is how many tasks are deleted at a time: few, in case the disk has little room.
const forgetTasks = 64

// withNumber is a condition for drop, for the tasks whose numbers are in a JSON list.
const withNumber = "keeper IS NULL AND number IN (SELECT value FROM json_each(?)) ORDER BY number"
