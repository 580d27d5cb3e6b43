// Package serve makes a running server of a config.
//
//	flags, variables ─▶ Options ─┐
//	config file ─▶ LoadConfig ───┴─▶ config ─▶ Registry, openState ─▶ Connect: rpc, tasks, tools ─▶ one client
//	                 ▲                              │
//	    watch, SIGHUP ┘─────────────────── Replace ◀┘
//
// Setup is what it all starts from. Serve is the whole of it, Dial the same for a command that calls its own tools. Work runs the tasks of
// others with the same tools, and serves no client (work.go):
//
//	tasks.Queue.Next ─▶ worker.begin ─ tools.Take ─▶ a Run like any other ─▶ its end frees the slot
//
// Goroutines: one watches the config (watch.go), one its name while a pipe is read (config.go), one serves metrics (metrics.go), one HTTP (http.go), one serves in process (inprocess.go),
// one asks for the tools of workers for each owner (fleet.go), one waits for SIGHUP where that ends the command (setup.go); those of a
// worker stand at its type (work.go). Timers start what can wait until the first answers are out: a look at the schemas and spare threads
// after a second (registry.go, serve.go), and the recovery of tasks (state.go). The locks are that of stderr (stderr.go), worker.mu
// (work.go) and owners.mu (owners.go), never together; under owners.mu the locks of rpc/http and of a runner are taken.
//
// Where things stand:
//
//	a config becomes tools                          Setup.registry (registry.go)
//	a config that has changed takes effect          Setup.readAgain (watch.go), Setup.replaceTools (owners.go)
//	owners are kept apart                           owners.serves (owners.go): each has a server of its own; in the state, package tasks
//	a state is opened                               Setup.openState (state.go)
//	a state must have workers                       Setup.openState (state.go)
//	a worker takes tasks                            worker.take, worker.begin (work.go)
//	a server ends                                   Setup.Connect (serve.go), stopTasks (server.go)
//	a config file that was only found needs trust   Trust.read, Trust.distrust (trust.go)
package serve
