// Package engine is a tasks.State on a server, whichever it is: what a process must do so that others can trust what it stores, once for all of
// them. An engine (packages nats, redis, ...) has a Store of each owner's tasks, and may have a Queue of those that wait for workers; it knows how
// things are stored, and nothing of why.
//
//	Runner ─ Put, Take, ... ─▶ State ─ of an owner ─▶ Space ─ Insert, Write, End ─▶ Store ─▶ server
//	                                                   │ ▲                          ▲
//	Log ─ Due ─▶ Keeping, its goroutine ─ Batch ───────┼─┼──────────── Append ──────┘
//	                                                   │ └─ marks and leases ─ Sweep ends what dead processes have left
//	Watch ◀─ Hear, or a look ──────────────────────────┘
//
// Words:
//
//	keeper    the name of the process that runs a task
//	space     what this process has of an owner's tasks
//	keeping   the output and the record of one task that this process runs
//	batch     some output that is stored in one go; it is sent again, as it is, until it is acknowledged
//	mark      says which process keeps a task, where a sweep finds it; the record decides
//	lease     says that a process lives, until it runs out; its process renews it
//	line      what waits for workers, in the order in which it was offered
//
// Goroutines: one for each task that this process runs, from its first Put to its last, which writes its output (keeping.go); two for each space,
// one that renews the lease and one that sweeps, since to end what is left may take longer than the lease holds, and what the engine starts
// with Space.Go, all to Close.
//
// Locks: State.dial, held while the server is connected to; line.look, a channel, full while the line is looked at; Keeping.mu, held across
// I/O; then State.mu, Space.mu or line.mu, neither under another.
//
// Where things stand:
//
//	an owner is opened once, and no other waits for it             State.Space (state.go)
//	who must end a task, or may                                    the record's keeper: Store.Write, End, Append, Take refuse the others
//	a process counts as gone                                       its lease has run out, and is not renewed: Space.Sweep (lease.go)
//	the tasks of a process that is gone are ended                  Space.recover (lease.go)
//	what is stored, but not acknowledged, is not stored twice      Keeping.store, Keeping.settle (keeping.go)
//	head and tail of a long log, numbers of segments               Keeping.collect (batch.go)
//	what is stored is what runnel could have written               Record.Check (record.go)
//	a task that waits is ended, or shown again                     Space.tend (queue.go), by any process; State.Watch, by who follows it
//	the task of a dead worker waits again                          Space.waitAgain (queue.go); its output goes on: Keeping.resume
package engine
