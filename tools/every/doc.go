// Package every starts tools at their times.
//
//	config.Every ─ All ─▶ Entry ─ Scheduler.Replace ─▶ a goroutine waits for the next time (config.Schedule)
//	                                                     ├─ claim: once over all processes of a state
//	                                                     └─ tools.Starter: a task without a client
//
// Each process with the config waits for the times, and all agree on them. Which one starts the tool is
// decided by a small value of the state (run.Runner.Tally): the latest time that was taken, and its task. The
// process that changes it first starts the tool; if it dies just then, that time is missed. The value also
// says what has started before, so that nothing starts while that still runs.
//
// Goroutines: one for each entry, until Stop or the end of the runner.
//
// Locks: Scheduler.mu, which is not held across I/O.
//
//	entry  a tool that starts by itself, with its arguments
//	time   one at which it should start
//	claim  what the processes share about an entry
package every
