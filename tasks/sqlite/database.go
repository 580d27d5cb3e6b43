package sqlite

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"

	"runnel/partials"
)

// database is an open state.
type database struct {
	o     Options
	lease *lease
	read  *sql.DB // for reading only, several connections
	w     *writer

	absent absences // leases of others

	stopSweeper context.CancelFunc
	sweeper     sync.WaitGroup

	mu   sync.Mutex
	live map[string]*backing // tasks of this process that have not ended

	damaged map[int64]bool // tasks whose damage was logged

	prepared sync.Map // from a query to its *sql.Stmt
}

// backing is one task's output in the database: a partials.Backing. It only reads if the task has ended or
// another process runs it.
type backing struct {
	db   *database
	task int64 // its number
	id   string

	// These are not set if it only reads.
	owner    string
	log      *partials.Log
	segments *partials.Segments
	hidden   atomic.Bool // a client does not know its id (put.go)

	// Owned by the writer's goroutine.
	written, pending extent
	// All stored output has numbers, so that it has the same ones in another process and after kill -9.
	numbers bool
}

// extent says how much of a log is stored: of a long one, the head and the tail.
type extent struct {
	kept int64 // bytes
	end  int64

	segments int   // how many have numbers
	last     int64 // where the last of them ends
}

// query reads. It keeps prepared statements, since parsing takes three times as long as looking up a task,
// and there are few queries. ctx does not end a query: that would take two goroutines, a fifth of the time of
// a tasks/get.
func (d *database) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, ok := d.prepared.Load(query)
	if !ok {
		fresh, err := d.read.Prepare(query)
		if err != nil {
			return nil, err
		}
		// A second statement for the query is closed with the database.
		s, _ = d.prepared.LoadOrStore(query, fresh)
	}
	return s.(*sql.Stmt).QueryContext(context.WithoutCancel(ctx), args...)
}

// each calls f with every row of a query, until ctx ends.
func (d *database) each(ctx context.Context, f func(scan func(...any) error) error, query string,
	args ...any) error {
	rows, err := d.query(ctx, query, args...)
	if err != nil {
		return explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(rows.Scan); err != nil {
			return explain(err)
		}
	}
	return explain(rows.Err())
}

// column reads the only column of a query's rows.
func column[T any](rows *sql.Rows, err error) (list []T, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var value T
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, rows.Err()
}

// tell logs damage once for each task.
func (d *database) tell(number int64, id, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.damaged[number] {
		d.damaged[number] = true
		d.o.Log.Error().Str("taskId", id).Int64("task", number).Str("damage", why).
			Msg("the state is damaged: a task cannot be read")
	}
}

func (d *database) forget(id string) {
	d.mu.Lock()
	delete(d.live, id)
	d.mu.Unlock()
}
