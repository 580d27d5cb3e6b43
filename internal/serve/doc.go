// Package serve makes a running server of a config.
//
//	flags, variables ─▶ Options ─┐
//	config file ─▶ LoadConfig ───┴─▶ config ─▶ Registry, openState ─▶ Connect: rpc, tasks, tools ─▶ one client
//	                 ▲                              │
//	    watch, SIGHUP ┘─────────────────── Replace ◀┘
//
// Setup is what it all starts from. Serve is the whole of it, Dial the same for a command that calls its own tools.
//
// Goroutines: one watches the config (watch.go), one serves metrics (metrics.go), one serves in process (inprocess.go). No lock of
// one file is held while another file's is taken.
//
// Where things stand:
//
//	a config file that was only found needs trust   Trust.readHere, Trust.distrust (trust.go)
package serve
