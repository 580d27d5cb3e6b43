// Package run runs tasks, and shows those that other processes run.
//
// A call that a client waits for and a call with a handle are both a Run; they differ only in whether the
// task is stored, and in what the client gets. The terms are the specification's: the receiver (runnel) runs
// a task for the requestor (the client).
//
//	Runner.Make ──▶ Run ─▶ Work ─ writes ─▶ Log ─ Deliver ─▶ the client
//	                 │                       │
//	                 │ finish: drained,      │ Back
//	                 ▼ stored, announced     ▼
//	               State ◀─────────────── output
//	                 │
//	                 ▼ Watch, Heed
//	              View of a task that another process runs; requests of other processes
//
// Words, besides those of package tasks:
//
//	Run     a task that this process runs
//	View    a task as this process sees it, whether it runs here or elsewhere; every Run has one
//	handle  the id of a task, once a client knows it; a run without a handle is a call that a client waits for
//	abort   to end a run as failed before its work has returned
//
// Goroutines:
//
//   - One for each Run, from Run.Begin until the work has returned; Runner.Close cancels it. A Run that hands its
//     task to another process (detach.go) follows it from then on, until the task's end or Runner.Close.
//   - One for each followed task of another process (follow.go), until the task's end, its last follower's
//     release, or Runner.Close.
//   - Those that Run.Deliver starts end with the run.
//   - A caller of View.Relay has one that looks for questions, and one for each question that it asks (relay.go).
//   - While a task runs, one looks from time to time at its output and its progress (times.go).
//   - In a process that has taken a task, or is one of several fronts, each open question has one that waits
//     for its answer (relay.go).
//   - A task that takes input has one that takes what other processes send (input.go), until it ends.
//   - While this process runs a task that others can see, one looks for their requests (runner.go), and one
//     ends each task that they want ended. These, and those that Runner.Go starts, end with Runner.Close.
//   - A state on disk has its own (package sqlite).
//
// Locks: Run.changing, which may be held across I/O; then View.answering, then View.mu or Runner.mu, but not
// both.
//
// Where things stand:
//
//	a task's ttl is decided                 Runner.ttl (start.go); what a call asks for is read in package tools
//	it has expired                          Run.expire (end.go)
//	owners are kept apart                   Runner.get, Runner.List (find.go): a state finds only tasks of the owner
//	a task is stored before its handle      Runner.admit (start.go)
//	the last partial comes before the end   Run.finishWith (work.go): Run.awaitDelivery (work.go), then Run.finish (end.go)
//	the same, where a task is aborted       Run.deliverRest (work.go)
//	no partial comes after the end          Run.finish (end.go)
//	no answer shows it working after that   Runner.BeforeTheEnd (view.go), View.setEnd (view.go)
//	a task elsewhere is followed            View.watchUntilEnd (follow.go)
//	a task is handed to a worker            Run.Offer (detach.go); which worker runs it: Shared.Take
//	another process asks for a cancel       Runner.cancelElsewhere (follow.go) there, Runner.watchRequests (runner.go) here
//	questions and progress from elsewhere   relay.go and times.go where the task runs, notes.go where it is followed
//	input reaches a task                    View.Send (input.go); from elsewhere as notes, Run.takeNotes
//	a worker takes an offer                 Take of package tools, Runner.Take (detach.go), Shared.Take
//	a lease is lost                         Runner.watchRequests (runner.go) ends the run
//	a task goes on in another process       Run.Resumes, Run.leave (detach.go); Runner.Left and Take there
//	the end that others stored counts       Runner.fencedEnd (end.go)
//	too many live tasks (tasks.maxLive)     Runner.addLive (limits.go); over all processes by each state (its write or put)
//	too many requests for tasks             Runner.CountRequest (limits.go)
//	one process reports an end to people    Run.reportEnd (end.go)
//	secrets are kept out of a task's end    Done.mask (work.go), from Run.finishWith; out of its log: package tools
package run
