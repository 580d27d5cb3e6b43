package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runnel/tools"
)

const about = `runnel serves your commands as MCP tools on stdin and stdout: a host starts it and calls them;
they run as tasks, and their output arrives while they run.`

const examples = `  # a tool without a config file
  runnel --tool 'gotest=go test -v {{package}}'

  # tools from a file
  runnel --config runnel.yaml

  # from a shell: write requests, wait for all answers
  printf '%s\n' "$INITIALIZE" "$CALL" | runnel --drain -1 --tool 'hello=echo hello {{who}}'

  # is the file right?
  runnel config check runnel.yaml`

// help shows the examples first: most people look for one that is near to what they want. It is no template: with
// text/template, which calls methods by their names, the linker must keep all methods of all packages.
func (i *invocation) help(cmd *cobra.Command, _ []string) {
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
		Short:         "Run commands as MCP tasks that stream their output",
		Long:          about + "\n\nEvery flag has an environment twin: RUNNEL_MAX_LINE for --max-line. A flag wins over it, it wins over the file.",
		Example:       examples,
		Args:          noArguments,
		RunE:          i.serve,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	i.options.register(root.Flags())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{flagError(cmd, err), hint(cmd)}
	})
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

// onlyServes tells whether the arguments are flags of serve and nothing else: no command, no wish for help.
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
	i.options.showDefaults(root.Flags())
	root.CompletionOptions.DisableDefaultCmd = false
	serve := &cobra.Command{
		Use:     "serve",
		Short:   "Serve MCP on stdin and stdout (as runnel alone does)",
		Example: "  runnel serve --config runnel.yaml",
		Args:    noArguments,
		RunE:    i.serve,
	}
	serve.Flags().SortFlags = false
	serve.Flags().AddFlagSet(root.Flags())
	root.AddCommand(serve, i.toolsCommand(root.Flags()), i.callCommand(root.Flags()), i.tasksCommand(root.Flags()), i.traceCommand(), i.doctorCommand(root.Flags()), i.configCommand(root.Flags().Lookup("config")), i.trustCommand(), manCommand(), i.versionCommand())
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if cmd != root && cmd != serve { // to a server it may mean to read its config again
			cmd.SetContext(i.untilHangup(cmd.Context()))
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
	return &usageError{err, hint(cmd)}
}

func commandNames(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return names
}

// didYouMean adds to an error about a name the one that may have been meant, if any is like it.
func didYouMean(err error, name string, names []string) error {
	if near := tools.Nearest(name, names); len(near) > 0 {
		return fmt.Errorf("%w (did you mean %s?)", err, near[0])
	}
	return err
}
