// Package engine is a tasks.State on any kind of server: what each process must do so that others can trust
// what it stores, written once for all servers. An engine (packages nats, redis, ...) has a Driver for each
// owner's tasks, and may have a Queue of tasks that wait for workers. It knows how things are stored; this
// package decides what is stored, and when.
//
//	Runner ─ Put, Take, ... ─▶ Space, which State.Open made ─ Insert, Write, End ─▶ Driver ─▶ server
//	                                                   │ ▲                          ▲
//	Log ─ Due ─▶ backing, its goroutine ─ Batch ───────┼─┼──────────── Append ──────┘
//	                                                   │ └─ marks and leases ─ Sweep ends what dead processes have left
//	Watch ◀─ Hear, or a look ──────────────────────────┘
//
// Words:
//
//	keeper    the name of the process that runs a task
//	space     the store of an owner's tasks in this process
//	backing   the output and the record of one task that this process runs
//	batch     some output that is stored in one go; it is sent again, as it is, until it is acknowledged
//	mark      says which process keeps a task, where a sweep finds it; the record decides
//	lease     says that a process lives, until it runs out; its process renews it
//	line      what waits for workers, in the order in which it was offered
//
// Goroutines: one for each task that this process runs, from its first Put to its last, which writes its
// output (backing.go). Two for each space until Close: one renews the lease, and one sweeps, because ending
// what dead processes have left may take longer than the lease lasts. Close also ends what an engine has
// started with Space.Go.
//
// Locks: State.dial, held while connecting to the server; Space.sweeping and backing.mu, held across I/O,
// neither under the other; Space.clearing and line.look, channels that are full while somebody deletes a
// refused task or looks at the line; then State.mu, Space.mu, line.mu or news.mu, none under another.
//
// Where things stand:
//
//	a follower hears from one Watch to the next                    following (shared.go)
//	an owner is opened once, and no other waits for it             Space.Ready (space.go)
//	only its keeper writes or ends a task                          the record's keeper: Driver.Write, End, Append, Take refuse the others
//	a lease is renewed                                             Space.Renew (lease.go), which calls Driver.Lease of the engine
//	one process of an owner sweeps for all                         Space.SweepInTurn (lease.go); Driver.Sweeps says which
//	a process counts as gone                                       its lease has run out, and is not renewed: Space.Sweep (lease.go)
//	this process has lost its lease, or one of its tasks           Space.Renew (lease.go), backing.lose (backing.go); reported by Space.Heed (shared.go)
//	the tasks of a process that is gone are ended                  Space.recover (take.go)
//	the plain calls of one, which workers run, too                 Space.leaveWithFront, Space.endLeft (queue.go)
//	what was stored without an acknowledgement is stored once      backing.store, backing.settle (backing.go)
//	head and tail of a long log, numbers of segments               backing.collect (backing.go)
//	what is stored is what runnel could have written               Record.Check (record.go)
//	a task that waits is ended, or shown again                     Space.tend (queue.go), by any process; Space.Watch, by who follows it
//	the task of a dead worker waits again                          Space.recover (take.go), Space.waitAgain (queue.go); its output continues: backing.resume
package engine
