package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Put implements tasks.Store. A process runs the tasks that it puts first: until a terminal status is put,
// the log is written to the state as it grows.
func (s *store) Put(_ context.Context, t tasks.Task) error {
	d, err := s.open()
	if err != nil {
		return err
	}
	t.Owner = s.owner
	d.mu.Lock()
	k := d.live[t.ID]
	d.mu.Unlock()
	switch {
	case k != nil:
		return d.update(k, t)
	case t.Status.Terminal():
		return tasks.ErrFenced
	}
	return d.insert(t)
}

// A hidden task is the row of a run without a handle (Run.spill): it is stored, with its output, before any
// client knows its id. It gets a handle later (update), becomes a part of the history (history.go), or is
// deleted when the run ends.

// hiddenExpires is the expiry of hidden rows: readers skip expired rows, and the sweeper spares them while
// they have a keeper. That of a call in the history is negative, too.
const hiddenExpires = -1

// insert stores a new task. Nobody finds a hidden one; it does not count against a limit, and need not
// outlive a loss of power.
func (d *database) insert(t tasks.Task) error {
	k := &backing{db: d, id: t.ID, owner: t.Owner, log: t.Log, segments: t.Segments, numbers: t.Merge}
	k.hidden.Store(t.Hidden)
	expires := expires(&t)
	if t.Hidden {
		expires = hiddenExpires
	}
	err := d.w.do(job{durable: !t.Hidden, do: func(tx *transaction) error {
		if !t.Hidden {
			if err := d.admit(tx, &t); err != nil {
				return err
			}
		}
		err := d.insertRow(tx, k, &t, expires)
		if err == nil && !t.Hidden && !tasks.IsFiles(t.ID) {
			tx.live[t.Owner]++
		}
		return err
	}})
	if err == nil {
		d.keep(k)
	}
	return err
}

// insertRow inserts the row of a task that this process runs.
func (d *database) insertRow(tx *transaction, k *backing, t *tasks.Task, expires int64) error {
	r, err := tx.exec(`INSERT INTO task (id, owner, tool, client, status, message, created, updated, ttl, expires, merge, variables, arguments, keeper)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.ID, t.Owner, t.Tool, t.Client, t.Status, t.StatusMessage, t.CreatedAt.UnixNano(),
		t.UpdatedAt.UnixNano(),
		int64(t.TTL), expires, t.Merge, []byte(t.Variables), []byte(t.Arguments), d.lease.name)
	if err == nil {
		k.task, err = r.LastInsertId()
	}
	return err
}

// keep backs the log of a task that this process runs from now on.
func (d *database) keep(k *backing) {
	d.mu.Lock()
	d.live[k.id] = k
	d.mu.Unlock()
	k.log.Back(k)
}

// admit refuses a new task while the disk is full, or if its owner has too many. It counts the tasks of all
// processes, in the transaction that stores the new one, but not those that keep files of others.
func (d *database) admit(tx *transaction, t *tasks.Task) (err error) {
	if err := d.w.room(); err != nil || t.Ending {
		return err
	}
	owner := t.Owner
	if limit := d.o.Limits.MaxLive; limit > 0 {
		n, counted := tx.live[owner]
		if !counted {
			if n, err = tx.count("SELECT count(*) FROM task INDEXED BY task_keeper WHERE keeper IS NOT "+
				"NULL AND owner = ? AND expires >= 0 AND id NOT GLOB '*-files'", owner); err != nil {
				return err
			}
			tx.live[owner] = n
		}
		if n >= limit {
			return refusal{tasks.ErrTooManyLive}
		}
	}
	if limit := d.o.Limits.MaxStartsPerMinute; limit > 0 {
		now := time.Now() // tasks from before the clock was set back may be younger
		n, err := tx.count("SELECT count(*) FROM (SELECT created FROM task WHERE owner = ? AND expires >= "+
			"0 AND id NOT GLOB '*-files' ORDER BY number DESC LIMIT ?) WHERE created > ? AND created <= ?",
			owner, limit, now.Add(-time.Minute).UnixNano(), now.UnixNano())
		if err == nil && n >= limit {
			err = refusal{tasks.ErrTooManyStarts}
		}
		return err
	}
	return nil
}

// update stores a later state of a task. With a terminal status, the rest of the log is stored in the same
// transaction. A hidden task is like any other from then on.
func (d *database) update(k *backing, t tasks.Task) error {
	outcome, err := tasks.EncodeOutcome(&t)
	if err != nil {
		return err
	}
	hidden := k.hidden.Load()
	keeper := sql.NullString{String: d.lease.name, Valid: !t.Status.Terminal()}
	err = d.w.do(job{durable: true, do: func(tx *transaction) (err error) {
		if hidden {
			if err := d.admit(tx, &t); err != nil {
				return err
			}
		}
		if t.Status.Terminal() {
			if err := k.write(tx); err != nil {
				return err
			}
		}
		// The log may have failed a moment ago, in this transaction's first try.
		if t.Status == mcp.TaskCompleted && k.log.Failed() != nil {
			return k.log.Failed()
		}
		found, err := tx.change(`UPDATE task SET status = ?, message = ?, updated = ?, outcome = ?, merge = ?, keeper = ?,
			variables = iif(expires < 0, ?, variables), arguments = iif(expires < 0, ?, arguments), expires = iif(expires < 0, ?, expires) WHERE number = ? AND keeper = ?`,
			t.Status, t.StatusMessage, t.UpdatedAt.UnixNano(), outcome, t.Merge, keeper,
			[]byte(t.Variables), []byte(t.Arguments), expires(&t), k.task, d.lease.name)
		if err == nil && found == 0 {
			err = tasks.ErrFenced
		}
		if hidden {
			tx.live[t.Owner]++
		} else if _, counted := tx.live[t.Owner]; counted && t.Status.Terminal() && !tasks.IsFiles(t.ID) {
			tx.live[t.Owner] -= int(found)
		}
		return err
	}, done: func(committed bool) {
		k.done(committed)
		k.hidden.Store(k.hidden.Load() && !committed) // here, where it is known what a write that fails means
	}})
	if t.Status.Terminal() && (err == nil || errors.Is(err, tasks.ErrFenced)) {
		d.forget(t.ID)
	}
	if hidden && err == nil && !k.log.Backed() { // it could not be written once
		k.log.Back(k)
	}
	return err
}

func expires(t *tasks.Task) int64 {
	created := t.CreatedAt.UnixNano()
	if int64(t.TTL) > math.MaxInt64-created {
		return math.MaxInt64
	}
	return created + int64(t.TTL)
}

// MarkFetched implements tasks.Store.
func (s *store) MarkFetched(_ context.Context, id string) error {
	return s.exec("UPDATE task SET fetched = 1 WHERE id = ? AND owner = ?", id, s.owner)
}

// exec writes with one query.
func (s *State) exec(query string, args ...any) error {
	d, err := s.open()
	if err != nil {
		return err
	}
	return d.w.do(job{do: func(tx *transaction) error {
		_, err := tx.exec(query, args...)
		return err
	}})
}

// Delete implements tasks.Store.
func (s *store) Delete(_ context.Context, id string) error {
	d, err := s.open()
	if err != nil {
		return err
	}
	for _, one := range []string{id, tasks.FilesID(id)} {
		d.mu.Lock()
		k := d.live[one]
		d.mu.Unlock()
		if k != nil && k.owner == s.owner {
			k.log.Unback() // nothing more will be written of it
			d.forget(one)
		}
	}
	// Deleting a long log takes a while: that is the sweeper's work.
	defer d.w.callSweeper()
	return s.exec("UPDATE task SET expires = 0, keeper = NULL WHERE id IN (?, ?) AND owner = ?", id,
		tasks.FilesID(id), s.owner)
}
