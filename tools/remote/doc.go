// Package remote is another server seen from its client's side: one call of a tool, followed to its end in whatever era and dialect the
// server speaks, and the lists of what it has, bounded as they come.
//
//	Call.Run ──▶ send ──▶ result
//	              │ ├───▶ questions ──▶ send again
//	              │ └───▶ await: poll, fetch what is missing, cancel ──▶ result
//	              └ responses ─┐
//	notifications ─────────────┴▶ tracker ──▶ Options.Content
//
// Goroutines: Run's own; the client's reader, which hands over what comes. While Run lasts: one that holds the
// subscription of a task of the stateless era, one for each question of such a task, one that waits for a task's result, one that doubts
// that missing output will be answered.
//
// Where things stand:
//
//	a call that is given up becomes tasks/cancel   Call.await, Call.cancel (task.go); before its handle: package rpc
//	a call becomes a task or not                   TakesTask (options.go), Call.send (run.go)
//	a list is bounded as it comes                  list.go
//
// Locks: the tracker's comes before Call.mu.
package remote
