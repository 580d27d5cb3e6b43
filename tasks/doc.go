// Package tasks runs work as tasks: durable handles with a status, an outcome and a log
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks).
//
// A call that somebody waits for and a call with a handle are the same Run; they only differ in whether the task is stored, and who is told
// about it. The terms are the specification's: the receiver (runnel) runs a task for the requestor (the client).
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
//	State   where tasks are kept: in memory, or where several processes share them
//	keeper  the process that runs a task, and the only one that may change it
//	Run     a task that this process runs
//	View    a task as this process sees it, whoever runs it; every Run has one
//	handle  the id of a task, once a client knows it; a run without a handle is a call that somebody waits for
//	hidden  kept by the state, but found by nobody: a run without a handle
//	fenced  ended by others, who believed its keeper to be gone
//	offer   lets a task wait for a worker, a runnel that takes the tasks of others (queue.go)
//
// Goroutines:
//
//   - One per Run, from Start until the work has returned; Runner.Close cancels it. A Run that hands its task to another process (detach.go)
//     follows it from then on, until the task's end or Runner.Close.
//   - One per followed task of another process (follow.go), until its end, its last follower's release, or Runner.Close.
//   - What Run.Deliver starts ends with the run.
//   - A waiting tasks/result has one that looks for questions, and one for each question that it asks (relay.go).
//   - While a task runs, one looks from time to time how its output has grown (times.go).
//   - In a process that has taken a task, each open question has one that waits for its answer, and a tool that reports progress has one that
//     stores it (publish.go).
//   - While this process runs a task that others can see, one looks for what they ask (requests.go), and one ends each task that they want ended.
//     These, and what Runner.Go starts, end with Runner.Close.
//   - A state on disk has its own (package sqlite).
//
// Locks: Run.handover and Run.changing, in this order, are held across I/O; then comes View.answering, then View.mu or Runner.mu, never both.
//
// Where things stand:
//
//	which status may follow which           checkMove (task.go)
//	what the eras do in other ways          handshake.go, stateless.go; what they share: methods.go
//	a task's ttl is decided                 Runner.ttl (start.go); what a call asks for is read in package tools
//	it has expired                          Run.expire (end.go), Task.Expired (task.go); a stored one is dropped by its state
//	owners are kept apart                   Runner.get, Runner.List (find.go): a state finds none but the owner's
//	a task is stored before its handle      Runner.admit (start.go)
//	the last partial comes before the end   Run.finishWith (work.go): Run.awaitDelivery (deliver.go), then Run.finish (end.go)
//	the same, where a task is cut off       Run.deliverRest (deliver.go)
//	no partial comes after the end          Run.stop (end.go)
//	no answer shows it working after that   Runner.beforeTheEnd (handshake.go), View.end (view.go)
//	a task elsewhere is followed            View.watchUntilEnd (follow.go)
//	a task is handed to a worker            Run.Offer (queue.go); which worker runs it: State.Take
//	others ask for a cancel                 Runner.cancelElsewhere (follow.go); heard by Runner.watchRequests (requests.go)
//	what runs elsewhere asks and tells      publish.go; notes.go, where it is followed
//	a worker takes an offer                 Take of package tools, Runner.Take (detach.go), State.Take
//	a lost lease is heard of                Runner.watchRequests (requests.go); found in packages sqlite and engine
//	the keeper of a task is gone            recover of packages sqlite and engine, which knows of retries, too; Task.FailOrphan (stored.go)
//	the end that others stored counts       Runner.fencedEnd (settle.go)
//	too many tasks, or requests for them    Runner.addLive, Runner.limited (limits.go); over all processes by each state: admit
//	one process tells people of an end      notice.go
//	secrets do not get into a task's end    Done.hide (hide.go), from Run.finishWith; into its log: package tools
package tasks
