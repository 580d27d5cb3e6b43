// Package remote is the client's side of another server: one call of a tool, followed to its end in any era
// and dialect, and the server's lists, bounded while they are read.
//
//	Call.Run ──▶ send ──▶ result
//	              │ ├───▶ questions ──▶ send again
//	              │ └───▶ await: poll, fetch what is missing, cancel ──▶ result
//	              └ responses ─┐
//	notifications ─────────────┴▶ tracker ──▶ Options.Content
//
// Goroutines: Run's own, and the client's reader, which hands over messages. While Run lasts: one that holds
// the subscription to a task of the stateless era, one for each question of such a task, one that waits for a
// task's result, and one that watches a fetch of missing output (patience).
//
// Where things stand:
//
//	a call that is given up becomes tasks/cancel   Call.await, Call.cancel (task.go); before its handle: package rpc
//	a call becomes a task or not                   TakesTask (options.go), Call.send (run.go)
//	a list is bounded while it is read             list.go
//
// Locks: the tracker's comes before Call.mu.
package remote
