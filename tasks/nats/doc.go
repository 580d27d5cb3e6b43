// Package nats keeps tasks in NATS JetStream, where runnels of many machines find them.
//
//	Put, Take, SetVariables ─ publish, if the record is still the one that was seen ─▶ stream of the owner
//	Log ─ Due ─ flusher ─ publish, if this process is still the keeper ───────────────▶    │
//	                                                                                      ▼ acknowledged
//	Get, List, Watch, Load ◀─ direct gets ────────────────────────────────────────── stream of the owner
//	Watch ◀─ wake ─ the keeper, when it has stored something: it says what, if that is short (wake.go)
//	Heed  ◀─ ask ── any runnel, answered by the keeper
//	Offer ─ record, then publish ─▶ work queue of the owner ─ a consumer for each class ─▶ Next (next.go)
//
// An owner has a stream, PREFIX_OWNER; an account of the server for each holds owners apart from each other's
// credentials (accounts_test.go). Its subjects are
//
//	PREFIX.OWNER.ID.made            that the task was made: its place in lists
//	PREFIX.OWNER.ID.task            the record, as package engine writes it; its sequence number is its revision
//	PREFIX.OWNER.live.ID.KEEPER     while the task has not ended; hidden.ID.KEEPER while it is hidden
//	PREFIX.OWNER.ID.log.head, tail  output, a message for each extent
//	PREFIX.OWNER.ID.ends            numbers of segments
//	PREFIX.OWNER.ID.variables
//	PREFIX.OWNER.ID.result.ATTEMPT  the outcome, in pieces; the record names the attempt that counts
//	PREFIX.OWNER.ID.fetched         a client has got the result
//	PREFIX.OWNER.ID.offer           the offer of a task for workers
//
// A second one, PREFIX-alive_OWNER, has PREFIX-alive.OWNER.KEEPER, the lease of a process, so that leases are
// kept when the first one is full; beside it KEEPER.worker, the announcement of a worker, session.ID, the
// session of an HTTP client, and sweep.lease, which names the process that sweeps for all. A third one,
// PREFIX-work_OWNER, is made with the first offer: the work queue, whose messages say for a second what a
// worker would read (queue.go). Outside of streams are PREFIX-wake.OWNER.ID and PREFIX-ask.OWNER.KEEPER.
// Every message of a task has a time to live that ends a minute after the task's own: the server sweeps.
//
// The manual has the calculation for a large fleet: servers, streams, bytes (runnel help fleet).
//
// Words, beside those of package engine:
//
//	revision  the sequence number of a record. A write of a record or of output names the one that its process has seen, and is refused if
//	          there is a newer one
//
// Goroutines: those of package engine, and of the NATS client.
//
// Locks: space.mu, under none of package engine's but backing.mu; an output's, which is not held across I/O.
//
// Where things stand:
//
//	a follower reads only what the wakes do not say                Space.look of package engine
//	a write of a process that is no longer the keeper is refused   space.publish (messages.go): tasks.ErrFenced
//	writes that follow each other cost little more than one        space.publishInOrder (messages.go)
//	an owner has too many tasks                                    space.admit (admit.go)
//	what is sent again is stored once                              the ids of messages: identified (messages.go)
//	an answer lacks its beginning, or a replica some output        missing (direct.go), follow (output.go)
//	output is found by its position                                places; else space.seek (output.go)
//	what a replica lacks is read from the leader                   space.caught (messages.go)
//	a task that waits is one worker's                              space.Take (write.go): the record decides; the queue is a hint
//	a worker finds what waits                                      State.Next (next.go)
//	a worker that takes one task after the other stays in line     standing (standing.go)
//	what a consumer has passed reaches a worker all the same       space.Reach (queue.go), when its process sweeps
//	an offer that is not runnel's is refused                       space.offered (next.go)
//	a stream is made, checked and brought to this version          space.openStream (open.go)
//	the servers have lost the streams                              space.restore (open.go) makes them; Space.Sweep ends what is lost
package nats
