// Package tasks runs work as tasks: durable handles with a status, an outcome and a log
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks).
//
// A call that somebody waits for and a call with a handle are the same Run; what differs is
// only whether the task is stored and who is told what. The terms are the specification's:
// the receiver (runnel) runs a task for the requestor (the client).
//
// Goroutines:
//
//   - One per Run, from Start until the work has returned. It is that of the request where somebody waits for the result, and one
//     of its own where the task outlives the request. It ends when the work does, at the latest after Runner.Close has cancelled it.
//     A Run whose task another process runs (detach.go) follows that instead, and ends with the task, with the last who
//     follows it, or with Runner.Close.
//   - What Run.Deliver starts ends with the run.
//   - A tasks/result that waits has one that looks for questions, and two for each question that it puts (relay.go).
//   - While a task runs that others can see, one looks for what they ask (heed.go). It, and what Runner.Go starts, ends with
//     Runner.Close.
//   - Those of a state on disk are told there (package sqlite).
package tasks
