// Runnel serves command line programs as MCP tools over stdin and stdout: they run as tasks and stream
// their output while they run.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"runnel/internal/cli"
	"runnel/internal/system"
)

func main() {
	stdout := os.Stdout
	os.Stdout = os.Stderr // stdout carries MCP messages: nothing that prints by accident may get there

	// A client that has gone is an error of write, not the end of the process before its children are stopped.
	system.KeepWriteErrors()

	// The signals first: one that ended the process later would leave the pipes non-blocking for whoever shares them.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	hangups := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		signal.Notify(hangups, syscall.SIGHUP)
	}
	ctx, interrupt := context.WithCancelCause(context.Background())
	again := make(chan os.Signal, 1)
	go func() { // the one that hears SIGINT and SIGTERM: the first ends what runs, the second leaves at once
		interrupt(fmt.Errorf("%v signal received", <-signals))
		again <- <-signals
	}()

	p := &cli.Process{Env: os.Environ(), Stdin: os.Stdin, Stdout: stdout, Stderr: os.Stderr, Again: again, Hangups: hangups}
	code, killedBy := p.Main(ctx, os.Args[1:])
	if killedBy != 0 {
		system.KillSelf(killedBy)
	}
	os.Exit(code)
}
