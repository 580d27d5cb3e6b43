// Runnel serves command line programs, Go functions and other MCP servers as tools over stdin and stdout.
// They run as tasks, and stream their output while they run. This page shows the whole house; the doc.go of
// most packages shows its room, and ends with a table of where things are. To find where something is
// decided, look there first:
//
//	grep -rn --include=doc.go WORD .
//
// # Five ideas
//
// Every call is a task. A plain tools/call is a task that its client waits for. There is one way to run a
// tool, one way to cancel it and one place where it is recorded; what differs is what the client is told, and
// when.
//
// One log for each task, and many readers. A tool appends to the log of its task. Whatever leaves the process
// is read from the log by a reader with a position of its own. A slow reader falls behind, and catches up
// with larger batches; it costs no memory. With a state on disk or on a server it slows no other, and the
// tool waits for that state only; in memory the tool waits once its slowest reader lags by 1 MiB.
//
// A dialect is how partial results look on the wire. The proposals for them (SEP-2679, SEP-1905, PR #383,
// SEP-2998) differ in a method name, a counter, a key and an end mark. Each is one small file, without a
// goroutine or a clock; SEP-1905 alone may read stored output again, when a client resumes. A message gets
// its number when it is written, never before; only SEP-1905 numbers pieces of output, when they are first
// sent or stored.
//
// An era is decided once. There are two: versions that open a session with initialize, and the stateless one.
// They meet where a request is admitted; after that, code asks what the caller can do.
//
// Drain, then answer. The last partial of a call has been given to the writer before its result or its
// terminal status is queued. A call that is cancelled is not drained.
//
// # A call
//
//	stdin ─▶ rpc          a line is read (frame.go) and checked (peer.go, message.go); the jsonrpc2.Conn dispatches it (conn.go)
//	         rpc          its request is admitted: era, method, a slot (request.go, incoming.go)
//	         tools        the tool is found, its arguments are checked (call.go; in the stateless era answer.go)
//	         tasks/run    a Run is made, stored before its client gets a handle, the task's id (start.go)
//	         tasks/feed   its output is opened for this client, in a dialect (spelling.go, feed.go); then the Run begins
//	         tools/...    the tool runs: a command, a Go function, another server
//	         tools        the request waits for what comes first: the end, questions, a cancel, or too late (next, answer.go)
//	         tasks/run    the Run ends: starting, running, draining, ending, ended (run.go, end.go)
//	         tools        the answer: a result, questions, or a handle for what goes on (answer.go, handover.go)
//	stdout ◀─ rpc         the answer is queued and written, around the Conn (incoming.go, writer.go)
//
// # A chunk
//
//	pipe ─▶ tools/process the output of a child is read
//	        tools/command bytes become text (tools/text), without escape sequences, then without secrets (tools/secrets): textStream (record.go)
//	        partials      the text is appended to the log, which wakes its readers (log.go)
//	        tasks/feed    a goroutine of the call waits in partials.Deliver, at its pace, and asks the writer for a turn (deliver.go)
//	        rpc           the writer pulls: each reader that waits encodes in turn (writer.go)
//	        partials      Reader.Next, then Dialect.Encode, which numbers them (sep2679.go and others)
//	stdout ◀─ rpc         they are written; the state, the store of tasks, takes it from the log, too (backing.go)
//
// # The rooms, from the bottom up
//
// An import points down, which a test checks.
//
//	rpc/mcp, rpc/rawjson    the words of the protocol and its versions; JSON text that is not decoded
//	rpc                     JSON-RPC on two pipes: lines, eras, requests in flight, the one writer
//	rpc/http                the same over HTTP; rpc/http/client is the other side
//	partials                the log of a task, its readers, the dialects; partials/tracker is the client's half
//	tasks                   what a task is, and what a state must do; the state in memory
//	tasks/run               tasks that run here, and views of those that run elsewhere
//	tasks/feed              what a client is sent about a call while it runs, also after a lost connection
//	tasks/methods           the methods tasks/* of both eras
//	tasks/engine            what states on servers have in common
//	tasks/sqlite            the state on disk
//	tasks/nats, tasks/redis, tasks/dynamodb    one state each
//	tasks/logs              the logs as resources, subscriptions
//	tools/reading           what a model is shown of a task
//	tools/fallback          the tools by which a model uses tasks through a host that has none
//	tools                   tools/list and tools/call
//	tools/...               the kinds of tools, the config, processes, schemas, text, secrets
//	internal/fleet          workers, and the fronts that list their tools
//	internal/serve          a config becomes a running server
//	internal/doctor         whether runnel can work here
//	internal/cli            the command line, one file a command
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"runnel/internal/cli"
	"runnel/internal/system"
)

// sameSignal is how long after the first signal a SIGTERM counts as the second: timeout(1) sends one to its
// command and immediately another one to the command's group, and a call needs the time to cancel.
const sameSignal = 2 * time.Second

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
		began := time.Now()
		interrupt(system.SignalError(first.(syscall.Signal)))
		second := <-signals
		if second == syscall.SIGTERM {
			time.Sleep(time.Until(began.Add(sameSignal)))
		}
		again <- second
	}()

	p := &cli.Process{Env: os.Environ(), Stdin: os.Stdin, Stdout: stdout, Stderr: os.Stderr, Again: again,
		Hangups: hangups}
	code, killedBy := p.Main(ctx, os.Args[1:])
	if killedBy != 0 {
		system.KillSelf(killedBy)
	}
	os.Exit(code)
}
