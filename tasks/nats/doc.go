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
// Words, beside those of package engine:
//
//	revision  the sequence number of a record; who writes one, or output, names the one that it has seen, and is refused if there is a newer
//
// Goroutines: those of package engine, and of the NATS client.
//
// Locks: space.mu, under none of package engine's but Keeping.mu; an output's, which is not held across I/O.
//
// Where things stand:
//
//	a write of a process that is no longer the keeper is refused   space.publish (messages.go): tasks.ErrFenced
//	what is sent again is not stored twice                         the ids of messages: space.Append, space.putRecord (write.go)
//	output is found by its position                                space.seek (output.go)
//	what a replica lacks is asked of the leader                    space.caught (messages.go)
//	a task that waits is one worker's                              space.Take (write.go): the record decides; the queue is a hint
//	an offer that is not runnel's is refused                       space.offered (next.go)
package nats
