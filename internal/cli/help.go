package cli

import (
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"runnel/internal/manual"
	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/tools/process"
)

// help shows the examples first: most people look for one that is close to what they want. It does not use a
// template: text/template calls methods by name, so the linker would have to keep all methods of all
// packages.
func (i *invocation) help(cmd *cobra.Command, _ []string) {
	serve.Describe(cmd.Flags())
	width := i.helpWidth()
	var b strings.Builder
	b.WriteString(term.Wrap(cmd.Short, width, 0) + "\n")
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	fmt.Fprintf(&b, "\nUsage:\n  %s\n", cmd.UseLine())
	if cmd.Long != "" {
		for paragraph := range strings.SplitSeq(strings.TrimSpace(cmd.Long), "\n\n") {
			b.WriteString("\n" + term.Wrap(paragraph, width, 0) + "\n")
		}
	}
	if cmd.HasAvailableSubCommands() {
		list := func(title string, commands []*cobra.Command) {
			fmt.Fprintf(&b, "\n%s:\n", title)
			for _, c := range commands {
				fmt.Fprintf(&b, "  %-*s %s\n", c.NamePadding(), c.Name(),
					term.Wrap(c.Short, width, c.NamePadding()+3))
			}
		}
		if cmd.HasParent() {
			list("Commands", slices.DeleteFunc(cmd.Commands(),
				func(c *cobra.Command) bool { return !c.IsAvailableCommand() }))
		} else {
			for _, group := range groups {
				var commands []*cobra.Command
				for _, name := range group.names {
					c, _, _ := cmd.Find([]string{name})
					commands = append(commands, c)
				}
				list(group.title, commands)
			}
		}
	}
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s\n", strings.TrimRight(cmd.LocalFlags().FlagUsagesWrapped(width), "\n "))
	}
	switch topic, ok := manual.Find(cmd.Name()); {
	case !cmd.HasParent():
		b.WriteString("\n" + term.Wrap("More flags: runnel serve --help. The manual: runnel help TOPIC "+
			"(runnel help help lists the topics).", width, 0) + "\n")
	case cmd.Name() == "help":
		b.WriteString("\nTopics:\n")
		for _, topic := range manual.Topics() {
			fmt.Fprintf(&b, "  %-16s %s\n", topic.Name, term.Wrap(topic.About, width, 19))
		}
	case ok && cmd.Parent() == cmd.Root():
		fmt.Fprintf(&b, "\nMore: runnel help %s\n", topic.Name)
	}
	_, i.unwritten = io.WriteString(cmd.OutOrStdout(), b.String())
}

// helpCommand makes "runnel help" show pages of the manual, too, and refuse what is neither a page nor a
// command.
func (i *invocation) helpCommand(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	cmd, _, _ := root.Find([]string{"help"})
	cmd.Use = "help [TOPIC | COMMAND]"
	cmd.Short = "Show a page of the manual, or the help of a command"
	cmd.Example = "  runnel help config\n  runnel help tasks list"
	complete := cmd.ValidArgsFunction
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string,
		cobra.ShellCompDirective) {
		names, directive := complete(cmd, args, word)
		for _, topic := range manual.Topics() {
			if _, _, err := root.Find([]string{topic.Name}); err != nil && len(args) == 0 &&
				strings.HasPrefix(topic.Name, word) {
				names = append(names, topic.Name+"\t"+topic.About)
			}
		}
		return names, directive
	}
	cmd.Long = ""
	cmd.Run = nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			if topic, ok := manual.Find(args[0]); ok {
				return i.showTopic(topic)
			}
		}
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

// helpWidth is the number of columns of the help: those of the terminal, but no more than are easy to read.
func (i *invocation) helpWidth() int {
	const most = 100
	if !term.IsTerminal(i.Stdout) {
		return most
	}
	width, _ := term.Size(i.Stdout)
	return min(width, most)
}

// showTopic writes a page: on a terminal in colours, through $PAGER or else less, which leaves a page that
// fits on the screen.
func (i *invocation) showTopic(topic manual.Topic) error {
	if !term.IsTerminal(i.Stdout) {
		_, err := io.WriteString(i.Stdout, topic.Text(i.helpWidth(), false))
		return err
	}
	page := topic.Text(i.helpWidth(), i.Getenv("NO_COLOR") == "" && i.Getenv("TERM") != "dumb")
	pager, isSet := process.LookupEnv(i.Env, "PAGER")
	if !isSet {
		pager = "less"
	}
	if words := strings.Fields(pager); len(words) > 0 && i.Getenv("TERM") != "dumb" {
		if program, err := exec.LookPath(words[0]); err == nil {
			cmd := exec.Command(program, words[1:]...)
			cmd.Stdin = strings.NewReader(page)
			cmd.Stdout = i.Stdout
			cmd.Stderr = i.Stderr
			// A LESS of the user's own comes later and counts.
			cmd.Env = append([]string{"LESS=FRX"}, i.Env...)
			return cmd.Run()
		}
	}
	_, err := io.WriteString(i.Stdout, page)
	return err
}
