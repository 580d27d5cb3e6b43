// Man writes a man page for each command of runnel: man DIR. The pages say what --help says.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"runnel/internal/cli"
	"runnel/internal/serve"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: man DIR")
	}
	if err := os.MkdirAll(os.Args[1], 0o755); err != nil {
		log.Fatal(err)
	}
	if err := write(cli.Command(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func write(cmd *cobra.Command, dir string) error {
	if !cmd.IsAvailableCommand() && cmd.HasParent() {
		return nil
	}
	file := filepath.Join(dir, name(cmd)+".1")
	if err := os.WriteFile(file, []byte(page(cmd)), 0o644); err != nil {
		return err
	}
	for _, sub := range cmd.Commands() {
		if err := write(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

func name(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page is the help of a command in the language of man(7).
func page(cmd *cobra.Command) string {
	var b strings.Builder
	section := func(heading, text string) {
		if text = strings.Trim(text, "\n"); text != "" {
			fmt.Fprintf(&b, ".SH %s\n%s\n", heading, text)
		}
	}
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"runnel %s\"\n", strings.ToUpper(name(cmd)), roff(serve.Version()))
	section("NAME", name(cmd)+" \\- "+roff(cmd.Short))
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
			fmt.Fprintf(&commands, ".TP\n.BR %s (1)\n%s\n", name(sub), roff(sub.Short))
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
