// Runnel serves command line programs as MCP tools over stdin and stdout: they run as tasks and stream
// their output while they run.
//
// The packages, from the bottom up. The doc.go of each says where things stand in it.
//
//	rpc             JSON-RPC on two pipes: lines, eras, requests in flight, the writer; rpc/mcp has the words of the protocol
//	rpc/http        the same over HTTP; rpc/http/client is the other side
//	partials        a task's output while it is written: the log, its readers, the dialects; partials/tracker is the client's half
//	tasks           tasks: status, limits, ends, the methods tasks/*; a package below it for each state that keeps them
//	tools           tools/list and tools/call; below it the kinds of tools, the config, processes, schemas, secrets
//	internal/serve  a config becomes a running server
//	internal/cli    the command line
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"runnel/internal/cli"
	"runnel/internal/system"
)

func main() {
	stdout := os.Stdout
	os.Stdout = os.Stderr // stdout carries MCP messages: nothing that prints by accident may get there

	// A client that has gone is an error of write, not the end of the process before its children are
	// stopped.
	system.KeepWriteErrors()

	// The signals first: one that ended the process later would leave the pipes non-blocking for whoever
	// shares them.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	hangups := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		signal.Notify(hangups, syscall.SIGHUP)
	}
	ctx, interrupt := context.WithCancelCause(context.Background())
	again := make(chan os.Signal, 1)
	go func() { // the one that hears SIGINT and SIGTERM: the first ends what runs, the second leaves at once
		first := <-signals
		interrupt(system.SignalError(first.(syscall.Signal)))
		again <- <-signals
	}()

	p := &cli.Process{Env: os.Environ(), Stdin: os.Stdin, Stdout: stdout, Stderr: os.Stderr, Again: again, Hangups: hangups}
	code, killedBy := p.Main(ctx, os.Args[1:])
	if killedBy != 0 {
		system.KillSelf(killedBy)
	}
	os.Exit(code)
}
