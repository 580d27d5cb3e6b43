// Package serve turns a config into a running server.
//
//	flags, variables ─▶ Options ─┐
//	config file ─▶ LoadConfig ───┴─▶ config ─▶ Registry, openState ─▶ Connect: rpc, tasks, tools ─▶ one client
//	                 ▲                              │
//	    watch, SIGHUP ┘─────────────────── Replace ◀┘
//
// Everything starts from a Setup. Serve runs a whole server; Dial does the same in process, for a command
// that calls its own tools. Work runs the tasks of other processes with the same tools, and serves no client
// (package fleet).
//
// Goroutines: one watches the config (watch.go), one its name while a pipe is read (config.go), one serves
// metrics (internal/metrics), one HTTP (http.go), one serves in process (inprocess.go), and one waits for
// SIGHUP where that ends the command (setup.go). Timers start what can wait until the first answers are out:
// after a second, the check of the schemas and the spare threads (registry.go, serve.go), and the recovery of
// tasks (state.go).
//
// Locks: those of rpc/http and of a runner are taken under owners.mu (owners.go).
//
// Where things stand:
//
//	a config becomes tools                          Setup.registry (registry.go)
//	a config that has changed takes effect          watcher.readAgain (watch.go), Setup.replaceTools (owners.go)
//	owners are kept apart                           owners.serves (owners.go): each has a separate server; in the state, package run
//	a state is opened                               Setup.openState (state.go)
//	a state must have workers                       Setup.openState (state.go)
//	a worker takes tasks                            Setup.Work (work.go), then package fleet
//	a server ends                                   Setup.Connect (serve.go), stopTasks (server.go)
//	stdin ends, and with it the children            Server.Serve of package rpc, OnStop: stopTasks (server.go), Runner.Close, process.Child
//	a config file that was only found needs trust   trust.Files (internal/trust)
package serve
