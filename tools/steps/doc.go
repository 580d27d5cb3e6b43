// Package steps has tools that are made of steps: tasks of other tools, and questions to people.
//
//	config.Step ─ New ─▶ step: its texts parsed, what it needs
//	tools/call ─ Steps.Call ─▶ call ─ one goroutine a step: waits for what it needs, then
//	                             ├─ tools.Call.MakeChild: a task of its own for the tool, or each item, or each attempt
//	                             └─ tools.Call.AskLasting: a question that outlives this process
//
// A call survives its process (tools.Resumable). Before a task of a step begins, its id is noted in the task
// of the call, and when the step has ended, how: a step with a noted end never runs again. In the next
// process the same call finds the notes. A task that was begun and has no noted end is looked up: if it has
// ended by itself, that is the end; if it was cut off, it runs again if its tool may
// (tools.Traits.Repeatable), else a person is asked.
//
// Goroutines: one for each step of a call, at most 100, and one for each item of a foreach that runs; all end
// with the call. Tasks that run at once are bounded by atOnce.
//
// Locks: call.mu, which is not held across I/O.
//
//	end     how a step ended: completed, failed or skipped
//	record  the note about one task of a step
//	cut off begun by a process that ended before the task did
package steps
