// Man writes a man page for each command of runnel, which says what --help says, and one for each page of the
// manual: man DIR. DIR gets the folders man1 and man7.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"runnel/internal/cli"
	"runnel/internal/manual"
	"runnel/internal/serve"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: man DIR")
	}
	commands, topics := filepath.Join(os.Args[1], "man1"), filepath.Join(os.Args[1], "man7")
	for _, dir := range []string{commands, topics} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			log.Fatal(err)
		}
	}
	if err := write(cli.Command(), commands); err != nil {
		log.Fatal(err)
	}
	for _, topic := range manual.Topics() {
		if err := os.WriteFile(filepath.Join(topics, "runnel-"+topic.Name+".7"),
			[]byte(topic.Roff(serve.Version())), 0o644); err != nil {
			log.Fatal(err)
		}
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
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"runnel %s\"\n", strings.ToUpper(name(cmd)),
		manual.Escape(serve.Version()))
	section("NAME", name(cmd)+" \\- "+manual.Escape(cmd.Short))
	section("SYNOPSIS", ".B "+manual.Escape(cmd.UseLine()))
	if cmd.Example != "" {
		section("EXAMPLES", ".nf\n"+manual.Escape(cmd.Example)+"\n.fi")
	}
	section("DESCRIPTION", strings.ReplaceAll(manual.Escape(cmd.Long), "\n\n", "\n.PP\n"))
	if cmd.HasAvailableLocalFlags() {
		section("OPTIONS", ".nf\n"+manual.Escape(cmd.LocalFlags().FlagUsagesWrapped(78))+"\n.fi")
	}
	var commands strings.Builder
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(&commands, ".TP\n.BR %s (1)\n%s\n", name(sub), manual.Escape(sub.Short))
		}
	}
	section("COMMANDS", commands.String())
	if !cmd.HasParent() {
		var topics strings.Builder
		for _, topic := range manual.Topics() {
			fmt.Fprintf(&topics, ".TP\n.BR runnel-%s (7)\n%s\n", topic.Name, manual.Escape(topic.About))
		}
		section("MANUAL", topics.String())
	}
	return b.String()
}
