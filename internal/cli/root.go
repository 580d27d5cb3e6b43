package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runnel/internal/serve"
	"runnel/internal/stdio"
	"runnel/internal/term"
)

// Process is the process that runnel runs in, as main knows it.
type Process struct {
	Env                   []string // "NAME=value"
	Stdin, Stdout, Stderr *os.File
	Again                 <-chan os.Signal // a second SIGINT or SIGTERM: leave at once
	Hangups               <-chan os.Signal // SIGHUP; none comes under nohup
}

// Main runs the program. main calls it once, and ends ctx with the first SIGINT or SIGTERM. If killedBy is
// not 0, the process must end by that signal as if it had not been caught; else it exits with code.
func (p *Process) Main(ctx context.Context, args []string) (code int, killedBy syscall.Signal) {
	serve.EaseCollector()
	in, restoreIn := stdio.Polled(p.Stdin)
	defer restoreIn()
	out, restoreOut := stdio.Polled(p.Stdout)
	defer restoreOut()
	i := &invocation{
		Setup: serve.Setup{Env: p.Env, Stdin: in, Stdout: out, Stderr: p.Stderr, Hangups: p.Hangups,
			Watches: true},
		again: p.Again, lastWords: make(chan func(), 1),
	}
	// The two are one pipe with 2>&1. It no longer blocks, and a plain write would lose what does not fit.
	if stdio.SamePipe(p.Stderr, p.Stdout) {
		i.Stderr = out
	}
	code = i.run(ctx, args)
	return code, i.killedBy
}

// Run is Main for tests: the whole program in this process, without signals and without a watch on the
// config.
func Run(ctx context.Context, args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	i := &invocation{Setup: serve.Setup{Env: env, Stdin: stdin, Stdout: stdout, Stderr: stderr}}
	return i.run(ctx, args)
}

// run runs a command and returns its exit code. It ends when ctx does.
func (i *invocation) run(ctx context.Context, args []string) int {
	i.args = args
	root := i.command(!onlyServes(args))
	// a shell shows the words of flags.
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		describe(root)
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
	// RUNNEL_LOG_FORMAT sets the format of the error, and may not have been read.
	if err != nil && i.Options.From["log-format"] == "" {
		_ = i.readEnvironment(root, true)
	}
	if err == nil {
		err = i.unwritten
	}
	if err == nil {
		return exitFine
	}
	// Not errors.As: a server wraps this error in "writing to the client", which is reported.
	if write, ok := err.(*fs.PathError); ok && write.Path == "/dev/stdout" &&
		errors.Is(write, syscall.EPIPE) {
		return exitUnread
	}
	if exit, ok := errors.AsType[exitError](err); ok {
		return int(exit)
	}
	if usage, ok := errors.AsType[*serve.UsageError](err); ok {
		i.Say(zerolog.ErrorLevel, usage.Error())
		return exitUsage
	}
	i.Say(zerolog.ErrorLevel, "runnel: "+err.Error())
	return exitCodeOf(err)
}

// exitCodeOf is the exit code of a command that ends with an error.
func exitCodeOf(err error) int {
	if exit, ok := errors.AsType[exitError](err); ok {
		return int(exit)
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return exitFailure
}

// leave ends the process although a command still runs. lastWords come first: a call removes the line that it
// draws, top restores the terminal.
func (i *invocation) leave(s syscall.Signal) int {
	var end func()
	select {
	case end = <-i.lastWords:
	default:
		i.killedBy = s
		return exitFailure
	}
	const patience = 100 * time.Millisecond // a stopped terminal takes no output
	ended := make(chan struct{})
	go func() { defer close(ended); end() }()
	select {
	case <-ended:
	case <-time.After(patience):
	}
	return exitSignal + int(s)
}

// flagError completes pflag's error about the flags of a command with what is allowed instead.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		f := value.GetFlag()
		return fmt.Errorf("--%s: %w", f.Name, serve.ValueError(f, value.GetValue(), errors.Unwrap(value)))
	case errors.As(err, &unknown):
		name, letters := unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames()
		names := commandNames(cmd) // --doctor
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		if name == "json" && cmd.Flags().Lookup("input") != nil {
			return fmt.Errorf("%w (write --input for the arguments, -o json for the result)", err)
		}
		if f := cmd.Flags().Lookup("output"); f != nil && f.Shorthand == "o" &&
			(name == "json" || name == "ndjson") {
			return fmt.Errorf("%w (write -o %s)", err, name)
		}
		if name == "name" && cmd.Name() == "doctor" {
			return fmt.Errorf("%w (runnel doctor HOST checks each server of the host that starts runnel)",
				err)
		}
		if name == "status" && cmd.Flags().Lookup("failed") != nil {
			return fmt.Errorf("%w (write --running or --failed)", err)
		}
		if letters == "o" && cmd.Flags().Lookup("file") != nil {
			return fmt.Errorf("%w (write --file FILE)", err)
		}
		if serve, _, _ := cmd.Root().Find([]string{"serve"}); serve.Flags().Lookup(name) != nil {
			return fmt.Errorf("%w: it is a flag of runnel serve, and means nothing here", err)
		}
		guess := didYouMean(err, "--"+cmp.Or(letters, name), names) // -config
		if guess == err && cmd.Name() == "call" && name != "" {
			return fmt.Errorf("%w (an argument of the tool is %s=VALUE)", err, name)
		}
		return guess
	}
	return err
}

const about = `An MCP host (an assistant, an IDE, a script) starts runnel and calls its tools. Each call
runs as a task: its output arrives while it runs. Without a command, runnel serves as "runnel serve" does.`

const examples = `  # one tool, without a config file: what a host would start; and the same tool in a shell
  runnel --tool 'gotest=go test -v {{package}}'
  runnel call gotest package=./... --tool 'gotest=go test -v {{package}}'

  # propose a config file for this directory, try a tool, give the tools to a host
  runnel init
  runnel call test
  runnel install claude-code`

// groups are the commands in the order of the help.
var groups = []struct {
	title string
	names []string
}{
	{"Set up", []string{"init", "install", "uninstall", "trust", "config", "doctor"}},
	{"Serve", []string{"serve", "wrap", "work"}},
	{"Call, and see what runs", []string{"tools", "call", "tasks", "attach", "top", "ui", "fleet"}},
	{"Others", []string{"trace", "completion", "version", "help"}},
}

// Command is the command line, for a program that writes man pages.
func Command() *cobra.Command {
	root := new(invocation).command(true)
	describe(root)
	return root
}

// describe gives the flags of all commands their words.
func describe(cmd *cobra.Command) {
	serve.Describe(cmd.Flags())
	for _, sub := range cmd.Commands() {
		describe(sub)
	}
}

// onlyServes reports whether the arguments are none but those of serve and wrap: they name no other command
// and ask for no help.
func onlyServes(args []string) bool {
	others := slices.DeleteFunc(allCommands(), func(name string) bool {
		return name == "serve" || name == "wrap"
	})
	return !slices.ContainsFunc(args, func(a string) bool {
		asks := strings.HasPrefix(a, "-h") || strings.HasPrefix(a, "--help")
		return asks || slices.Contains(others, a) || strings.HasPrefix(a, cobra.ShellCompRequestCmd)
	})
}

// allCommands returns the names of runnel's commands.
func allCommands() (names []string) {
	for _, group := range groups {
		names = append(names, group.names...)
	}
	return names
}

// command makes the command line of this run. Without all it has only serve and wrap, as hosts start runnel:
// the flags of all other commands are a tenth of a start.
func (i *invocation) command(all bool) *cobra.Command {
	root := &cobra.Command{
		Use:           "runnel",
		Short:         "Serve commands as MCP tools whose output streams while they run",
		Long:          about,
		Example:       examples,
		Args:          noArguments,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(i.Stdin)
	root.SetOut(i.Stdout)
	root.SetErr(i.Stderr)
	i.flags = pflag.NewFlagSet("serve", pflag.ContinueOnError)
	i.Options.Register(i.flags)
	root.Flags().SortFlags = false
	i.addServeFlags(root.Flags(), "config", "tool", "set", "state", "http", "no-stdio", "log-level")
	servers := []*cobra.Command{root, i.serveCommand(), i.wrapCommand()}
	root.AddCommand(servers[1:]...)
	root.CompletionOptions.DisableDefaultCmd = !all
	version := root.Flags().Bool("version", false, "print the version, its commit and its date")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *version {
			return printVersion(i.Stdout)
		}
		if len(i.args) == 0 && i.Options.From["http"] == "" && term.IsTerminal(i.Stdin) &&
			term.IsTerminal(i.Stdout) {
			return cmd.Help() // a person does not type JSON
		}
		return i.serve(cmd, args)
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if !slices.Contains(servers, cmd) { // a server reads its config again instead of ending
			cmd.SetContext(i.UntilHangup(cmd.Context()))
			i.Hangups = nil // the view, a server of its own, does not wait for them as well
		}
		switch name := cmd.Name(); name {
		case "install", "uninstall": // variables that are set here must not end up in the host's file
			return nil
		default:
			return i.readEnvironment(cmd, slices.Contains(servers, cmd) || name == "work" || name == "doctor")
		}
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command,
		err error) error {
		return misuse(cmd, "%w", flagError(cmd, err))
	})
	root.SetHelpFunc(i.help)
	if all {
		root.AddCommand(i.initCommand(), i.installCommand(), i.uninstallCommand(), i.toolsCommand(),
			i.callCommand(), i.tasksCommand(), i.attachCommand(), i.topCommand(), i.uiCommand(),
			i.workCommand(), i.fleetCommand(), i.traceCommand(), i.doctorCommand(), i.configCommand(), i.trustCommand(), i.versionCommand())
		completeFlags(root)
		fixCompletion(root)
		i.helpCommand(root)
	}
	return root
}
