// Package sqlite keeps tasks in a directory: a SQLite database that several processes use at once.
//
//	Put, Ask, ...  ─ job ──▶ writer ─ one transaction for all that waits ─▶ runnel.db
//	Log ─ Due ─ job ───────▶    │
//	sweeper ─ job ─────────▶    ▼ committed, answer
//	Get, List, Watch ◀─ row, extents ─ four connections that only read ─ runnel.db
//
// Words:
//
//	lease     a locked file in alive/ that says that a process lives; its name is the keeper of the tasks that the process runs
//	extent   a row of output: up to 64 KiB of a log (partials.Extent)
//	backing   one task's output as the database has it
//	hidden    a row of a run without a handle, which nobody finds
//	orphaned  a task whose keeper is gone; who finds one ends it as failed
//
// Goroutines, from the first use of a State to Close: one that writes (writer.go), one that sweeps
// (sweep.go).
//
// Locks: State.mu, which is held while the state is opened, then database.mu, writer.mu or lease.mu, never
// across a transaction.
//
// Where things stand:
//
//	a task that has expired is dropped, or for want of room   database.dropExpired, database.evict (sweep.go)
//	a write for a task that others have ended is refused      database.update (put.go), backing.write (log.go): tasks.ErrFenced
//	an owner has too many tasks, or the disk is full          database.admit (put.go)
//	a process looks whether others have ended its tasks       store.Heed (shared.go)
//	the tasks of a process that is gone are ended             database.recover (recover.go)
//	a process counts as gone                                  database.gone (recover.go), leaseHeld (lease.go)
package sqlite
