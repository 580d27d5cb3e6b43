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
//	task:ID        a hash: the record, as package engine writes it, and what scripts look at beside it
//	log:ID         a stream: output; an entry's id is the position where its extent ends, so that any position is found at once
//	ends:ID        a stream: numbers of segments; an entry's id is the last number in it
//	result:ID      the outcome
//	tasks, last    the order in which tasks were made, and the last place in it
//	live, hidden   hashes: who keeps which task; without a handle it is hidden
//	starts         when the tasks of the last minute were made
//	expires        when what is stored of a task is gone
//	alive          leases: until when a process counts as alive
//	session:ID     a hash: the session of an HTTP client, and its version
//	asked:KEEPER   the tasks of a process that others ask to cancel
//
// and the channels wake:ID and ask:KEEPER. Everything of a task has a time to live that ends a minute after
// the task's own.
//
// A change is one script (the .lua files), so that it happens whole or not at all. Each may run twice, or
// late: a script that was not answered is sent again, and finds out whether it has run.
//
// Goroutines: those of package engine; one for each owner until Close, which receives the requests of others
// (state.go); one for each Watch, which receives news of a task (wake.go); those of the client.
//
// Locks: connection.mu and channel.leaving (wake.go), under none of package engine's. The server runs one
// script at a time.
//
// Words:
//
//	keeper   the process that runs a task, as its lease in alive names it
//	place    of a task in the order of all: its score in tasks
//	script   one change; common.lua stands before each
//	trouble  what the server refuses, in words for people (call.go)
//
// Where things stand:
//
//	a write of a process that is no longer the keeper is refused   the scripts: tasks.ErrFenced
//	an owner has too many tasks                                    put.lua
//	what was stored without an answer is not stored twice          the scripts find out whether they have run
//	output that a server has lost is not taken for stored          append.lua
package redis
