package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"runnel/internal/serve"

	"github.com/rs/zerolog"
)

// Exit codes.
const (
	exitFine    = 0 // EOF on stdin and SIGTERM are the ways to end
	exitFailure = 1 // something failed at run time
	exitUsage   = 2 // wrong flags or config

	exitInterrupted = 130 // after Ctrl-C: 128 + SIGINT, as shells give it
)

// Process is the process that runnel runs in: what main hands over.
type Process struct {
	Env                   []string // "NAME=value"
	Stdin, Stdout, Stderr *os.File
	Again                 <-chan os.Signal // a second SIGINT or SIGTERM: nothing more is waited for
	Hangups               <-chan os.Signal // SIGHUP; nothing comes under nohup
}

// Main runs the program; the first SIGINT or SIGTERM ends ctx. killedBy is the signal that the process ends by as if it had not been
// caught, 0 if it exits with code.
func (p *Process) Main(ctx context.Context, args []string) (code int, killedBy syscall.Signal) {
	serve.EaseCollector()
	in, restoreIn := serve.Polled(p.Stdin)
	defer restoreIn()
	out, restoreOut := serve.Polled(p.Stdout)
	defer restoreOut()
	i := &invocation{
		Setup: serve.Setup{Env: p.Env, Stdin: in, Stdout: out, Stderr: p.Stderr, Hangups: p.Hangups, Watches: true},
		again: p.Again, lastWords: make(chan func(), 1),
	}
	if serve.SamePipe(p.Stderr, p.Stdout) { // as 2>&1 makes it: it does not block any more, and what has no room would be lost
		i.Stderr = out
	}
	code = i.run(ctx, args)
	return code, i.killedBy
}

// Run is the whole program in goroutines of this process: no signal comes, and the config is not watched.
func Run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	i := &invocation{Setup: serve.Setup{Env: env, Stdin: stdin, Stdout: stdout, Stderr: stderr}}
	return i.run(ctx, args)
}

// invocation is one run of the program.
type invocation struct {
	serve.Setup

	again     <-chan os.Signal // a second SIGINT or SIGTERM: nothing more is waited for; nil = none comes
	killedBy  syscall.Signal   // what ended the process as if it had not been caught; 0 = nothing
	lastWords chan func()      // of a call: takes away the line that it draws; capacity 1

	args      []string
	unwritten error // why the help could not be written: cobra takes no error of it
}

// run is the whole program but for the process around it; it returns the exit code. It ends when ctx does.
func (i *invocation) run(ctx context.Context, args []string) int {
	i.args = args
	root := i.serveAlone()
	root.SetIn(i.Stdin)
	root.SetOut(i.Stdout)
	root.SetErr(i.Stderr)
	if !onlyServes(root.Flags(), args) {
		i.addCommands(root)
	}
	root.SetArgs(append([]string{}, args...)) // not nil, which would mean os.Args
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	var err error
	select {
	case err = <-ended:
	case s := <-i.again:
		return i.leave(s.(syscall.Signal))
	}
	if err != nil && i.Options.From == nil { // the variables have not been read, and one says how it is told
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
	if usage, ok := errors.AsType[*serve.UsageError](err); ok {
		i.Say(zerolog.ErrorLevel, usage.Error())
		return exitUsage
	}
	i.Say(zerolog.ErrorLevel, "runnel: "+err.Error())
	return exitFailure
}

// leave ends the process though a command still runs. Only a call has last words: the line that it draws is taken away.
func (i *invocation) leave(s syscall.Signal) int {
	var end func()
	select {
	case end = <-i.lastWords:
	default:
		i.killedBy = s
		return exitFailure
	}
	const patience = 100 * time.Millisecond // a terminal that has been stopped takes no word
	ended := make(chan struct{})
	go func() { defer close(ended); end() }()
	select {
	case <-ended:
	case <-time.After(patience):
	}
	return exitInterrupted
}

// exitError is an end that needs no words, or whose words have been said.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
