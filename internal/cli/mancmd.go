package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"runnel/internal/serve"
)

// manCommand is "runnel man".
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the man pages into a directory",
		Long:    "Writes a man page for each command into DIR, and makes DIR if it does not exist.",
		Example: "  runnel man ~/.local/share/man/man1 && man runnel-call",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return noArguments(cmd, args[1:])
			}
			if len(args) == 0 {
				return misuse(cmd, "runnel man: which directory?")
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return writeManPages(cmd.Root(), args[0])
		},
	}
}

func writeManPages(cmd *cobra.Command, dir string) error {
	if !cmd.IsAvailableCommand() && cmd.HasParent() {
		return nil
	}
	file := filepath.Join(dir, manName(cmd)+".1")
	if err := os.WriteFile(file, []byte(manPage(cmd)), 0o644); err != nil {
		return err
	}
	for _, sub := range cmd.Commands() {
		if err := writeManPages(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is the help of a command in the language of man(7).
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	section := func(name, text string) {
		if text = strings.Trim(text, "\n"); text != "" {
			fmt.Fprintf(&b, ".SH %s\n%s\n", name, text)
		}
	}
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"runnel %s\"\n", strings.ToUpper(manName(cmd)), roff(serve.Version()))
	section("NAME", manName(cmd)+" \\- "+roff(cmd.Short))
	section("SYNOPSIS", ".B "+roff(cmd.UseLine()))
	if cmd.Example != "" {
		section("EXAMPLES", ".nf\n"+roff(cmd.Example)+"\n.fi")
	}
	section("DESCRIPTION", strings.ReplaceAll(roff(cmd.Long), "\n\n", "\n.PP\n"))
	if cmd.HasAvailableLocalFlags() {
		section("OPTIONS", ".nf\n"+roff(cmd.LocalFlags().FlagUsages())+"\n.fi")
	}
	var commands strings.Builder
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(&commands, ".TP\n.BR %s (1)\n%s\n", manName(sub), roff(sub.Short))
		}
	}
	section("COMMANDS", commands.String())
	return b.String()
}

// roff escapes text for man(7).
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(strings.TrimRight(text, "\n"))
	lines := strings.Split(text, "\n")
	for n, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[n] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
