package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

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
