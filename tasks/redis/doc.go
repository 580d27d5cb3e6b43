// Package redis keeps tasks in Redis or Valkey, where runnels of many machines find them.
//
//	Put, Take, SetVariables ─ script, if this process is still the keeper ─▶ keys of the owner
//	Log ─ Due ─ flusher ─ script, if this process is still the keeper ─────▶    │
//	                                                                           ▼
//	Get, List, Watch, Load ◀─ reads ─────────────────────────────────── keys of the owner
//	Watch ◀─ wake ─ whoever has stored something
//	Heed  ◀─ ask ── any runnel
//
// An owner has a prefix, PREFIX:OWNER:, so that the server's ACL can hold owners apart. After it come
//
//	schema         the version of what stands here
//	task:ID        a hash: the record (record.go), and what scripts look at beside it
//	log:ID         a stream: output; an entry's id is the position where its stretch ends, so that any position is found at once
//	ends:ID        a stream: numbers of segments; an entry's id is the last number in it
//	result:ID      the outcome
//	tasks, last    the order in which tasks were made, and the last place in it
//	live, hidden   hashes: who keeps which task; without a handle it is hidden
//	starts         when the tasks of the last minute were made
//	expires        when what is stored of a task is gone
//	alive          leases: until when a process counts as alive
//	asked:KEEPER   the tasks of a process that others ask to cancel
//
// and the channels wake:ID and ask:KEEPER. Everything of a task has a time to live that ends a minute after the task's own.
//
// A change is one script (the .lua files), so that it happens whole or not at all. Each may run twice, or late: a script that nobody has
// answered is sent again, and knows what it has done.
//
// Words:
//
//	space     what this process has of an owner's keys
//	keeper    the name of the process that runs a task; a script that names another one than stands there is refused
//	keeping   the output and the record of one task that this process runs
//	lease     a time until which a process counts as alive, which it puts off again and again
//
// Goroutines: one for each task that this process runs, from its first Put to its last, which writes its output (keeping.go); three for each
// space, one that renews the lease, one that looks for orphans and for what has expired, one that hears what others ask, to Close (lease.go);
// one for each Watch, which hears whether there is anything new (shared.go); those of the client.
//
// Locks: State.mu, space.mu; keeping.mu, which is held across I/O. None is taken under another, but space.mu under either of the others.
//
// Where things stand:
//
//	a write of a process that is no longer the keeper is refused   the scripts: tasks.ErrFenced
//	a process counts as gone                                       its lease has run out, and is not renewed: space.sweep (lease.go)
//	the tasks of a process that is gone are ended                  space.recover (lease.go), finish.lua
//	what is stored, but not answered, is not stored twice          keeping.send (keeping.go), append.lua
//	output that a server has lost is not taken for stored          append.lua
package redis
