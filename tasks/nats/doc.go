// Package nats keeps tasks in NATS JetStream, where runnels of many machines find them.
//
//	Put, Take, SetVariables ─ publish, if the record is still the one that was seen ─▶ stream of the owner
//	Log ─ Due ─ flusher ─ publish, if this process is still the keeper ───────────────▶    │
//	                                                                                      ▼ acknowledged
//	Get, List, Watch, Load ◀─ direct gets ────────────────────────────────────────── stream of the owner
//	Watch ◀─ wake ─ the keeper, when it has stored something
//	Heed  ◀─ ask ── any runnel, answered by the keeper
//	Offer ─ record, then publish ─▶ work queue of the owner ─ a consumer for each class ─▶ Next (queue.go)
//
// An owner has a stream, PREFIX_OWNER; an account of the server for each holds owners apart from each other's credentials (accounts_test.go).
// Its subjects are
//
//	PREFIX.OWNER.ID.made            that the task was made: its place in lists
//	PREFIX.OWNER.ID.task            the record (record.go); its sequence number is its revision
//	PREFIX.OWNER.ID.live.KEEPER     while the task has not ended; hidden.KEEPER while it is hidden
//	PREFIX.OWNER.ID.log.head, tail  output, a message for each stretch
//	PREFIX.OWNER.ID.ends            numbers of segments
//	PREFIX.OWNER.ID.variables
//	PREFIX.OWNER.ID.result.ATTEMPT  the outcome, in pieces; the record names the attempt that counts
//	PREFIX.OWNER.ID.fetched         a client has got the result
//	PREFIX.OWNER.ID.offer           of a task for workers: what its worker is told
//
// A second one, PREFIX-alive_OWNER, has PREFIX-alive.OWNER.KEEPER, the lease of a process: it stays where the first one is full; beside it KEEPER.worker,
// what a worker says of itself. A third one, PREFIX-work_OWNER, is made with the first offer: the work queue (queue.go). Outside of
// streams are PREFIX-wake.OWNER.ID and PREFIX-ask.OWNER.KEEPER. Every message of a task has a time to live that ends a
// minute after the task's own: the server sweeps.
//
// Words:
//
//	space     what this process has of an owner's stream
//	revision  the sequence number of a record; who writes one, or output, names the one that it has seen, and is refused if there is a newer
//	keeping   the output and the record of one task that this process runs
//	lease     a message with a time to live, which its process renews
//	offer     a task that waits for a worker: its keeper is "queue"
//	line      what waits, in the order in which it was offered
//
// Goroutines: one for each task that this process runs, from its first Put to its last, which writes its output (keeping.go); two for each
// space, one that renews the lease and one that looks for orphans, to Close (lease.go); those of the NATS client.
//
// Locks: State.mu, space.mu; keeping.mu, which is held across I/O. None is taken under another, but space.mu under either of the others.
//
// Where things stand:
//
//	a write of a process that is no longer the keeper is refused   space.publish (messages.go): tasks.ErrFenced
//	a process counts as gone                                       its lease has run out, and is not renewed: space.sweep (lease.go)
//	the tasks of a process that is gone are ended                  space.recover (lease.go)
//	what is stored, but not acknowledged, is not stored twice      keeping.send, keeping.resend (keeping.go)
//	output is found by its position                                 output.seek (output.go)
//	what a replica lacks is asked of the leader                    space.caught (messages.go)
//	a task that waits is one worker's                               State.Take (shared.go): the record decides; the queue is a hint
//	a task that nobody takes ends                                   space.tend (unkept.go), by any process; State.Watch, by who follows it
//	the task of a dead worker waits again                           space.recover (lease.go), space.requeue (unkept.go); its output goes on: keeping.resume
//	an offer that is not runnel's is refused                        space.offered (next.go)
package nats
