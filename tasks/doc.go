// Package tasks says what a task is: a durable handle with a status, an outcome and a log
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks), and what a state that
// keeps tasks must do. Package run runs them, and package methods answers clients about them.
//
//	package run ─▶ State ─▶ Store ◀─ Shared, Historian, Sessions: what the store of an owner may do besides
//	                 ▲
//	                 │ in memory (Memory), or packages sqlite, nats, redis and dynamodb
//
// Words:
//
//	State   where tasks are kept: in memory, or where several processes share them
//	keeper  the process that runs a task, and the only one that may change it
//	hidden  kept by the state, but not found by clients: a call that a client waits for
//	fenced  ended by another process, which believed that the keeper was gone
//	offer   to let a task wait for a worker, a runnel that takes the tasks of others (queue.go)
//	note    a member of a task's variables that only runnel reads and writes (variables.go)
//
// It has no goroutine, except the timers of a Memory. Its only lock is Memory.mu.
//
// Where things stand:
//
//	which status may follow which       CheckMove (task.go)
//	a task has expired                  Task.Expired (task.go); its state deletes it (sqlite: dropExpired)
//	how a task is stored, and checked   stored.go; a followed one is brought up to date by Task.Update (stored.go)
//	how a task goes on the wire         wire.go; an error gets its code in WireError (state.go)
//	the keeper of a task has died       recover of packages sqlite and engine; Task.FailOrphan (stored.go)
//	a dead worker's task is tried again Space.recover of package engine (a command's retry: package command)
//	a lease is lost                     found by each state, reported by Shared.Heed
package tasks
