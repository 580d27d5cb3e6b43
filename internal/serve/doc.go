// Package serve makes a running server of a config.
//
//	flags, variables ─▶ Options ─┐
//	config file ─▶ LoadConfig ───┴─▶ config ─▶ Registry, openState ─▶ Connect: rpc, tasks, tools ─▶ one client
//	                 ▲                              │
//	    watch, SIGHUP ┘─────────────────── Replace ◀┘
//
// Setup is what it all starts from. Serve is the whole of it, Dial the same for a command that calls its own tools.
//
// Goroutines: one watches the config (watch.go), one serves metrics (metrics.go), one HTTP (http.go), one serves in process (inprocess.go), one waits for
// SIGHUP where that ends the command (setup.go). Timers start what can wait until the first answers are out: a look at the schemas and
// spare threads after a second (registry.go, serve.go), and the recovery of tasks (state.go). The only lock is that of stderr (stderr.go).
//
// Where things stand:
//
//	a config file that was only found needs trust   Trust.read, Trust.distrust (trust.go)
package serve
