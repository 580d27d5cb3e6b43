package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"runnel/internal/signal"
	"runnel/internal/system"
)

// writer is the one goroutine of a process that writes to the state. It gets two kinds of work: jobs, whose
// callers wait (do), and the output of logs, for which nobody waits (flush). Everything that is there when a
// transaction begins is written in it, so many small writes cost hardly more than one. If a part cannot be
// written, each part is tried by itself.
type writer struct {
	o    Options
	db   *sql.DB
	wake signal.Wake
	done chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	jobs     []job
	due      []job // the output of logs
	now      bool  // due is written without waiting for more output
	waiting  bool  // a timer of flushDelay runs, which sets now
	stopping bool

	sweepSoon signal.Wake // asks the sweeper to come early

	// Owned by the goroutine.
	tx       *transaction
	pinned   bool // a stopped reader was reported
	diskFull bool // a write has failed for lack of room, and there was none since
}

// job is something to write.
type job struct {
	// Called again if its transaction has failed, even because of another job.
	do      func(tx *transaction) error
	durable bool // must survive a loss of power, not only the end of the process
	// Called after each call of do, when its transaction has ended, unless do has refused; may be nil.
	done   func(committed bool)
	answer func(err error) // called once, at last

	refused error // the error with which do refused in the last transaction
}

// refusal is the error of a job that has written nothing, so that the other jobs of its transaction can go
// on.
type refusal struct{ error }

const (
	// flushDelay is how long output waits for more before it is written, since a batch costs as much as a
	// line.
	flushDelay = 100 * time.Millisecond
	// politeTime is how long a transaction goes on before it lets other goroutines run, since many rows take
	// ten milliseconds. It does not yield after each row, because other processes wait for its end.
	politeTime = 500 * time.Microsecond
	// maxJobs is how many jobs go into one transaction; the others wait for its end.
	maxJobs = 512
	// minRoom is how much of a disk that was full must be free before a new task is stored: it would be worse
	// to fail the task after it has run.
	minRoom = 4 << 20
)

func openWriter(file string, info os.FileInfo, o Options) (*writer, error) {
	db, err := sql.Open("sqlite", dsn(file))
	if err != nil {
		return nil, err
	}
	w := &writer{o: o, db: db, wake: signal.NewWake(), done: make(chan struct{}), sweepSoon: signal.NewWake()}
	ctx := context.Background()
	c, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	w.tx = &transaction{conn: c, prepared: map[string]*sql.Stmt{}, file: file, info: info, wal: file + "-wal",
		longestWAL: longestWAL(o.MaxState)}
	if w.tx.mostPages, err = setUp(ctx, c, o); err != nil {
		w.tx.close()
		_ = db.Close()
		return nil, err
	}
	go w.run()
	return w, nil
}

// do writes j and returns when it is written.
func (w *writer) do(j job) error {
	answer := make(chan error, 1)
	j.answer = func(err error) { answer <- err }
	w.mu.Lock()
	if w.stopping {
		w.mu.Unlock()
		return errors.New("the state is closed")
	}
	w.jobs = append(w.jobs, j)
	w.mu.Unlock()
	w.wake.Send()
	return <-answer
}

// flush has a log's output written, now or after flushDelay. It does not block. It reports false if the
// writer is ending and takes nothing more.
func (w *writer) flush(output job, now bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping {
		return false
	}
	w.due = append(w.due, output)
	switch {
	case now:
		w.now = true
		w.wake.Send()
	case !w.waiting:
		w.waiting = true
		time.AfterFunc(flushDelay, func() {
			w.mu.Lock()
			w.now, w.waiting = true, false
			w.mu.Unlock()
			w.wake.Send()
		})
	}
	return true
}

// close returns when everything that has come is written.
func (w *writer) close() error {
	w.mu.Lock()
	w.stopping = true
	w.mu.Unlock()
	w.wake.Send()
	<-w.done
	return w.db.Close()
}

func (w *writer) run() {
	defer close(w.done)
	defer w.tx.close()
	for range w.wake {
		for {
			jobs, stop := w.take()
			if stop {
				return
			}
			if len(jobs) == 0 {
				break
			}
			w.write(jobs)
		}
	}
}

// take returns the jobs that must be written now: output first, so that a task's end comes after it in the
// same transaction.
func (w *writer) take() (jobs []job, stop bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.jobs) > 0 || w.now || w.stopping {
		jobs = append(jobs, w.due...)
		w.due, w.now = nil, false
	}
	n := min(len(w.jobs), maxJobs)
	jobs = append(jobs, w.jobs[:n]...)
	w.jobs = w.jobs[n:]
	return jobs, w.stopping && len(jobs) == 0
}

// write writes the jobs together or, if one of them fails, each by itself, so that one task's trouble does
// not harm another.
func (w *writer) write(jobs []job) {
	err := w.commit(jobs)
	if isDiskFull(err) && w.tx.emptyWAL() == nil { // its content fits into the database
		err = w.commit(jobs)
	}
	if err == nil || isBusy(err) || len(jobs) == 1 && !errors.Is(err, errFull) {
		w.answer(jobs, err)
		return
	}
	for i := range jobs {
		one := jobs[i : i+1]
		err := w.commit(one)
		for errors.Is(err, errFull) && w.makeRoom() {
			err = w.commit(one)
		}
		if isBusy(err) { // each of the others would wait as long for the process that holds the state
			w.answer(jobs[i:], err)
			return
		}
		w.answer(one, err)
	}
}

// makeRoom deletes expired tasks or else those that ended first, some at a time; those that a task which goes
// on may still read come last. It reports false if there are none, or if deleting needs room, too.
func (w *writer) makeRoom() bool {
	deleted := 0
	err := w.commit([]job{{do: func(tx *transaction) (err error) {
		deleted, err = tx.drop(expired, w.o.Now().UnixNano())
		for _, which := range []string{endedFirst, endedNeeded} {
			if err == nil && deleted == 0 {
				deleted, err = tx.drop(which)
			}
		}
		return err
	}}})
	w.callSweeper() // there is more to do
	return err == nil && deleted > 0
}

// callSweeper asks for a sweep soon.
func (w *writer) callSweeper() {
	w.sweepSoon.Send()
}

func (w *writer) answer(jobs []job, err error) {
	if isDiskFull(err) && !w.diskFull {
		w.diskFull = true
		w.o.Log.Error().Msg("the disk is full: new tasks are refused until some of it is free")
	}
	pinned := errors.Is(err, errPinned)
	if pinned && !w.pinned {
		w.o.Log.Error().Err(explain(err)).
			Msg("nothing can be written to the state: output waits, and new tasks are refused")
	}
	w.pinned = pinned
	for _, j := range jobs {
		j.answer(cmp.Or(explain(err), j.refused))
	}
}

// room refuses new tasks while the disk is full. Only the writer's goroutine calls it.
func (w *writer) room() error {
	if w.diskFull && system.FreeRoom(w.o.Dir) < minRoom {
		return refusal{explain(syscall.ENOSPC)}
	}
	w.diskFull = false
	return nil
}

// commit runs the jobs in one transaction.
func (w *writer) commit(jobs []job) (err error) {
	durable := false
	for _, j := range jobs {
		durable = durable || j.durable
	}
	if err := w.tx.begin(durable); err != nil {
		return err
	}
	n, began := 0, time.Now()
	for ; n < len(jobs) && err == nil; n++ {
		if time.Since(began) > politeTime {
			runtime.Gosched() // a goroutine that was woken on this processor would wait for a thousand rows
			began = time.Now()
		}
		err, jobs[n].refused = jobs[n].do(w.tx), nil
		if refused, ok := errors.AsType[refusal](err); ok {
			err, jobs[n].refused = nil, refused.error
		}
	}
	if err == nil {
		err = w.tx.commit()
	}
	if err != nil {
		_, _ = w.tx.conn.ExecContext(context.Background(), "ROLLBACK") // fails if SQLite has done it
	}
	for _, j := range jobs[:n] {
		if j.done != nil && (err != nil || j.refused == nil) {
			j.done(err == nil)
		}
	}
	return err
}
