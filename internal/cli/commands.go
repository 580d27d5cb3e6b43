package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runnel/internal/serve"
	"runnel/tools/text"
)

const about = `An MCP host (an assistant, an IDE, a script) starts runnel and calls its tools. Each call runs as a task: its output arrives while it
runs, long work goes on in the background, and its result is kept until somebody fetches it.

Without a command, runnel serves on stdin and stdout, as "runnel serve" does. Every flag has an environment variable, RUNNEL_MAX_LINE
for --max-line. A flag wins over its variable, and the variable wins over the config file.`

const examples = `  # one tool, without a config file: what a host would start
  runnel --tool 'gotest=go test -v {{package}}'

  # try that tool in a shell
  runnel call gotest package=./... --tool 'gotest=go test -v {{package}}'

  # tools from a file; is the file right?
  runnel --config runnel.yaml
  runnel config check runnel.yaml

  # what are my hosts running right now?
  runnel tasks list

  # does all of it work here?
  runnel doctor

  # from a script: write requests, wait for all answers
  printf '%s\n' "$INITIALIZE" "$CALL" | runnel --drain -1 --tool 'hello=echo hello {{who}}'`

// help shows the examples first: most people look for one that is near to what they want. It is no template: with
// text/template, which calls methods by their names, the linker must keep all methods of all packages.
func (i *invocation) help(cmd *cobra.Command, _ []string) {
	if cmd.Name() == "call" {
		var done bool
		if done, i.unwritten = i.helpWithTool(cmd); done {
			return
		}
	}
	var b strings.Builder
	fmt.Fprintln(&b, cmd.Short)
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	fmt.Fprintf(&b, "\nUsage:\n  %s\n", cmd.UseLine())
	if cmd.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(cmd.Long))
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				fmt.Fprintf(&b, "  %-*s %s\n", c.NamePadding(), c.Name(), c.Short)
			}
		}
	}
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s\n", strings.TrimRight(cmd.LocalFlags().FlagUsages(), "\n "))
	}
	_, i.unwritten = io.WriteString(cmd.OutOrStdout(), b.String())
}

// serveAlone is the command line, on which runnel alone serves, without the other commands: to make them all takes a tenth of a start.
func (i *invocation) serveAlone() *cobra.Command {
	root := &cobra.Command{
		Use:           "runnel",
		Short:         "Serve commands as MCP tools whose output streams while they run",
		Long:          about,
		Example:       examples,
		Args:          noArguments,
		RunE:          i.serve,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	i.Options.Register(root.Flags())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &serve.UsageError{Err: flagError(cmd, err), Hint: hint(cmd)}
	})
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

// onlyServes reports whether the arguments are flags of serve and nothing else: no command, no wish for help.
func onlyServes(flags *pflag.FlagSet, args []string) bool {
	for n := 0; n < len(args); n++ {
		name, found := strings.CutPrefix(args[n], "--")
		name, _, hasValue := strings.Cut(name, "=")
		f := flags.Lookup(name)
		if !found || f == nil {
			return false
		}
		if !hasValue && f.NoOptDefVal == "" {
			n++ // its value
		}
	}
	return true
}

func (i *invocation) addCommands(root *cobra.Command) {
	i.Options.ShowDefaults(root.Flags())
	root.CompletionOptions.DisableDefaultCmd = false
	serveCmd := &cobra.Command{
		Use:     "serve",
		Short:   "Serve MCP on stdin and stdout (runnel without a command does the same)",
		Example: "  # what a host starts\n  runnel serve --config runnel.yaml",
		Args:    noArguments,
		RunE:    i.serve,
	}
	serveCmd.Flags().SortFlags = false
	serveCmd.Flags().AddFlagSet(root.Flags())
	root.AddCommand(serveCmd, i.wrapCommand(root.Flags()), i.toolsCommand(root.Flags()), i.callCommand(root.Flags()), i.tasksCommand(root.Flags()), i.traceCommand(), i.doctorCommand(root.Flags()), i.configCommand(root.Flags().Lookup("config")), i.trustCommand(), manCommand(), i.versionCommand())
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if cmd != root && cmd != serveCmd && cmd.Name() != "wrap" { // to a server it may mean to read its config again
			cmd.SetContext(i.UntilHangup(cmd.Context()))
		}
	}
	asked := root.Flags().Bool("version", false, "print the version, its commit and its date")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *asked {
			return i.printVersion()
		}
		return i.serve(cmd, args)
	}
	root.SetHelpFunc(i.help)
	completeFlags(root)
	mendCompletion(root)
	mendHelp(root)
}

// mendHelp lets cobra's command for help tell of a command that there is none.
func mendHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	cmd, _, _ := root.Find([]string{"help"})
	cmd.Run = nil
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		about, rest, err := root.Find(args)
		if err != nil {
			return err
		}
		if len(rest) > 0 {
			return noArguments(about, rest)
		}
		about.InitDefaultHelpFlag()
		return about.Help()
	}
}

func hint(cmd *cobra.Command) string {
	return fmt.Sprintf("see %s --help", cmd.CommandPath())
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("%s: unknown argument %q", cmd.CommandPath(), args[0])
	if cmd.HasAvailableSubCommands() {
		err = fmt.Errorf("unknown command %q", args[0])
		err = didYouMean(err, args[0], commandNames(cmd))
	}
	return &serve.UsageError{Err: err, Hint: hint(cmd)}
}

func commandNames(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return names
}

// serve is "runnel", "runnel serve" and, with a server to stand before, "runnel wrap".
func (i *invocation) serve(cmd *cobra.Command, _ []string) error {
	if err := i.readEnvironment(cmd); err != nil {
		return err
	}
	return i.Setup.Serve(cmd.Context())
}

// didYouMean adds to an error about a name the one that may have been meant, if any is like it.
func didYouMean(err error, name string, names []string) error {
	if near := text.Nearest(name, names); len(near) > 0 {
		return fmt.Errorf("%w (did you mean %s?)", err, near[0])
	}
	return err
}
