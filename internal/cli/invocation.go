package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runnel/internal/serve"
	"runnel/internal/system"
	"runnel/tools/text"
)

// Exit codes.
const (
	exitFine    = 0 // also after EOF on stdin and SIGTERM
	exitFailure = 1 // something failed at run time
	exitUsage   = 2 // wrong flags or config

	// As shells show the end of a program by a signal: 128 + its number.
	exitInterrupted = exitSignal + int(syscall.SIGINT) // Ctrl-C
	exitSignal      = 128
	exitTimeout     = 124 // as timeout(1) has it
	exitUnread      = 141 // SIGPIPE: nobody reads stdout any more, as when head has seen enough
)

// invocation is one run of the program.
type invocation struct {
	serve.Setup

	again     <-chan os.Signal // a second SIGINT or SIGTERM: leave at once; nil = none comes
	killedBy  syscall.Signal   // the process ends by this signal, as if it had not been caught; 0 = by none
	lastWords chan func()      // what to do before the process leaves at once; capacity 1

	target    target
	args      []string
	flags     *pflag.FlagSet // the flags of runnel serve
	unwritten error          // why the help could not be written: cobra cannot return it
}

// exitError is an exit code that needs no words, or that has been explained already.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// failure is an error with its exit code.
type failure struct {
	error
	code int
}

func (f *failure) Unwrap() error { return f.error }

// interrupted is the exit code after ctx has ended by a signal: 143 after SIGTERM.
func interrupted(ctx context.Context) exitError {
	if s, ok := errors.AsType[system.SignalError](context.Cause(ctx)); ok {
		return exitError(exitSignal + int(s))
	}
	return exitError(exitInterrupted)
}

// misuse makes the error for a command that was called wrongly. It points to the command's help.
func misuse(cmd *cobra.Command, format string, args ...any) error {
	return &serve.UsageError{Err: fmt.Errorf(format, args...),
		Hint: fmt.Sprintf("see %s --help", cmd.CommandPath())}
}

// noArguments refuses any argument.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("%s: unknown argument %q", cmd.CommandPath(), args[0])
	if cmd.HasAvailableSubCommands() {
		err = fmt.Errorf("unknown command %q", args[0])
		err = didYouMean(err, args[0], commandNames(cmd))
	}
	return misuse(cmd, "%w", err)
}

// atMostOne refuses a second argument.
func atMostOne(cmd *cobra.Command, args []string) error {
	return noArguments(cmd, args[min(len(args), 1):])
}

func commandNames(cmd *cobra.Command) (names []string) {
	if !cmd.HasParent() {
		return allCommands()
	}
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return names
}

// didYouMean adds the nearest known name, if any is near, to an error about an unknown one.
func didYouMean(err error, name string, names []string) error {
	if near := text.Nearest(name, names); len(near) > 0 {
		return fmt.Errorf("%w (did you mean %s?)", err, near[0])
	}
	return err
}

// readEnvironment sets the flags of a command that were not given from their variables. serves: the log has
// its usual level; a command for a person logs warnings only, unless the user sets a level.
func (i *invocation) readEnvironment(cmd *cobra.Command, serves bool) error {
	if err := i.Options.ReadEnvironment(cmd.Flags(), i.Getenv); err != nil {
		return misuse(cmd, "%w", err)
	}
	if !serves && i.Options.From["log-level"] == "" {
		i.Options.LogLevel.Word = "warn"
	}
	return nil
}
