// Runnel serves command line programs as MCP tools over stdin and stdout: they run as tasks and stream
// their output while they run.
//
// Package main wires the rooms: flags, variables and the config file become options (flags.go,
// config.go), serve (serve.go) connects the server, the tasks and the tools. The commands stand in a file each.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
)

// Exit codes.
const (
	exitFine    = 0 // EOF on stdin and SIGTERM are the ways to end
	exitFailure = 1 // something failed at run time
	exitUsage   = 2 // wrong flags or config

	exitInterrupted = 130 // after Ctrl-C: 128 + SIGINT, as shells give it
)

func main() {
	stdout := os.Stdout
	os.Stdout = os.Stderr // stdout carries MCP messages: nothing that prints by accident may get there

	// A client that has gone is an error of write, not the end of the process before its children are stopped.
	// Not signal.Ignore: children inherit an ignored signal, and "yes | head" would not end as it should.
	// A file that may not grow (ulimit -f) is one, too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGXFSZ)

	easeCollector()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	hangups := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		signal.Notify(hangups, syscall.SIGHUP)
	}

	// Not before the signals: one that ended the process would leave the pipes non-blocking for whoever shares them.
	in, restoreIn := polled(os.Stdin)
	out, restoreOut := polled(stdout)
	ctx, interrupt := context.WithCancelCause(context.Background())
	go func() {
		interrupt(fmt.Errorf("%v signal received", <-signals))
		again := (<-signals).(syscall.Signal) // a second one ends the process at once, and leaves the pipes as they were
		restoreOut()
		restoreIn()
		signal.Reset(again)
		_ = syscall.Kill(os.Getpid(), again)
	}()
	i := &invocation{env: os.Environ(), stdin: in, stdout: out, stderr: os.Stderr, signals: signals, hangups: hangups, reloads: true}
	if samePipe(os.Stderr, stdout) { // as 2>&1 makes it: it does not block any more, and what has no room would be lost
		i.stderr = out
	}
	code := i.run(ctx, os.Args[1:])
	restoreOut()
	restoreIn()
	os.Exit(code)
}

// invocation is one run of the program and what surrounds it.
type invocation struct {
	env    []string // "NAME=value"
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer

	signals chan<- os.Signal // gets SIGINT and SIGTERM, of which the second ends the process; nil = none comes
	hangups <-chan os.Signal // SIGHUP; nil = none comes

	reloads bool        // the config file is watched
	seen    os.FileInfo // of it, from before it was read last; nil = it was not there

	completing bool // a shell waits for words: no other server is started

	untrusted *untrusted // why the config file in the current directory was left out, if it was

	detach string // the tool whose calls are detached, whatever the config says

	args []string

	options options

	unwritten error // why the help could not be written: cobra takes no error of it
}

// run is the whole program but for the process around it; it returns the exit code. It ends when ctx does.
func (i *invocation) run(ctx context.Context, args []string) int {
	i.args = args
	root := i.serveAlone()
	root.SetIn(i.stdin)
	root.SetOut(i.stdout)
	root.SetErr(i.stderr)
	if !onlyServes(root.Flags(), args) {
		i.addCommands(root)
	}
	root.SetArgs(append([]string{}, args...)) // not nil, which would mean os.Args
	err := root.ExecuteContext(ctx)
	if err != nil && i.options.from == nil { // the variables have not been read, and one says how it is told
		_ = i.readEnvironment(root)
	}
	if err == nil {
		err = i.unwritten
	}
	if err == nil {
		return exitFine
	}
	// The error itself, and not one that wraps it: a server's says "writing to the client", and is told.
	if write, ok := err.(*fs.PathError); ok && write.Path == "/dev/stdout" && errors.Is(write, syscall.EPIPE) {
		return exitFailure // head has seen enough
	}
	if exit, ok := errors.AsType[exitError](err); ok {
		return int(exit)
	}
	if usage, ok := errors.AsType[*usageError](err); ok {
		i.say(zerolog.ErrorLevel, usage.Error())
		return exitUsage
	}
	i.say(zerolog.ErrorLevel, "runnel: "+err.Error())
	return exitFailure
}

var errHangup = errors.New("the terminal has gone (SIGHUP)")

// untilHangup ends with ctx or with SIGHUP.
func (i *invocation) untilHangup(ctx context.Context) context.Context {
	if i.hangups == nil {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-i.hangups:
			cancel(errHangup)
		case <-ctx.Done():
		}
	}()
	return ctx
}

// getenv returns the value of a variable, "" if it is not set.
func (i *invocation) getenv(name string) string {
	for _, variable := range slices.Backward(i.env) {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// usageError is something that the user has to change: flags, variables, config.
type usageError struct {
	err  error
	hint string
}

func (e *usageError) Error() string {
	if e.hint == "" {
		return e.err.Error()
	}
	return e.err.Error() + "\n" + e.hint
}

func (e *usageError) Unwrap() error { return e.err }

// exitError is an end that needs no words, or whose words have been said.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
