// Package tasks runs work as tasks: durable handles with a status, an outcome and a log
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks).
//
// A call that somebody waits for and a call with a handle are the same Run; what differs is
// only whether the task is stored and who is told what. The terms are the specification's:
// the receiver (runnel) runs a task for the requestor (the client).
//
//	Runner.Start ─▶ Run ─▶ Work ─ writes ─▶ Log ─ Deliver ─▶ the client
//	                 │                       │
//	                 │ finish: drained,      │ Back
//	                 ▼ stored, then told     ▼
//	               State ◀─────────────── output
//	                 │
//	                 ▼ Watch, Heed
//	              View of a task elsewhere; what others ask of this process
//
// Words:
//
//	State   where tasks are kept: memory, or what several processes share
//	keeper  the process that runs a task, and alone may change it
//	Run     a task that this process runs
//	View    a task as this process sees it, whoever runs it; every Run has one
//	handle  the id of a task that a client knows; a run without one is a call that somebody waits for
//	hidden  kept by the state, but found by nobody: a run without a handle
//	fenced  ended by others, who took the keeper for gone
//	offer   what lets a task wait for a worker, a runnel that takes tasks of others (queue.go)
//
// Goroutines:
//
//   - One per Run, from Start until the work has returned, at the latest after Runner.Close has cancelled it.
//     A Run that hands its task to another process (detach.go) follows it from then on, to the task's end or Runner.Close.
//   - One for each task elsewhere that somebody follows (follow.go), until its end, the last who needs it, or Runner.Close.
//   - What Run.Deliver starts ends with the run.
//   - A tasks/result that waits has one that looks for questions, and one for each question that it puts (relay.go).
//   - A question of a task that was taken has one that waits for its answer, and such a task whose tool tells of its progress one that writes that
//     down (notes.go).
//   - While a task runs that others can see, one looks for what they ask (heed.go), and one each ends those that
//     they want ended. These, and what Runner.Go starts, end with Runner.Close.
//   - Those of a state on disk are told there (package sqlite).
//
// Locks: Run.handing and Run.door, in this order, which are held across I/O, then View.mu or Runner.mu, neither under the other.
//
// Where things stand:
//
//	which status may follow which           checkMove (task.go)
//	what the eras do in other ways          handshake.go, stateless.go; what they share: methods.go
//	a task's ttl is decided                 Runner.ttl (start.go); what a call asks for is read in package tools
//	it has expired                          Run.expire (end.go), Task.Expired (task.go); a stored one is dropped by its state
//	owners are kept apart                   Runner.get, Runner.List (find.go): a state finds none but the owner's
//	a task is stored before its handle      Runner.admit (start.go)
//	the last partial comes before the end   Run.do (work.go): Run.awaitDelivery (deliver.go), then Run.finish (end.go)
//	the same, where a task is cut off       Run.deliverRest (deliver.go)
//	no partial comes after the end          Run.stop (end.go)
//	a task elsewhere is followed            View.lookOn (follow.go)
//	a task is handed to a worker            Run.Offer (queue.go); which worker runs it: State.Take
//	others ask for a cancel                 Runner.cancelElsewhere (follow.go); heard by Runner.heed (heed.go)
//	what runs elsewhere asks and tells      notes.go
//	a lost lease is heard of                Runner.heed (heed.go); found in package sqlite
//	the end that others stored counts       Runner.overruled (settle.go)
//	too many tasks, or requests for them    limits.go
//	secrets do not get into a task's end    Done.hide (hide.go), from Run.finishAs; into its log: package tools
package tasks
