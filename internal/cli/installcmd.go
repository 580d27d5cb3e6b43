package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runnel/internal/hosts"
	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/tools/config"
)

// installCommand is "runnel install".
func (i *invocation) installCommand() *cobra.Command {
	var given []givenFlag
	var entry *entryFlags
	cmd := &cobra.Command{
		Use:   "install [HOST...] [flags] [-- ARGUMENT...]",
		Short: "Write runnel into a host's list of MCP servers",
		Long: `Writes runnel into the file where a host lists its MCP servers, with its full path. Nothing
else in the file changes: comments, other servers and the order stay as they are, and runnel uninstall
restores the file byte for byte. A backup of the file is kept, too. Without a HOST it shows the hosts on
this machine and, on a terminal, asks which you mean.

The host passes the flags of runnel serve (--tool, --config, --state and all others) to runnel. To start
another command of runnel instead, give all of its arguments after --.

Hosts: ` + strings.Join(hosts.IDs(), ", ") + `.`,
		Example: `  # which hosts are on this machine?
  runnel install

  # one tool for Claude Code, a whole file for Codex
  runnel install claude-code --tool 'gotest=go test -v {{package}}'
  runnel install codex --config runnel.yaml

  # for everybody in this project; what would change?
  runnel install cursor vscode --scope project --config runnel.yaml
  runnel install zed --dry-run --config runnel.yaml

  # put runnel before a server that the host has
  runnel install claude-code --wrap github

  # another server, with everything that runnel adds to it
  runnel install codex --name everything -- wrap -- npx -y @modelcontextprotocol/server-everything`,
		ValidArgsFunction: completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			var rest []string
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				args, rest = args[:dash], args[dash:]
			}
			if err := entry.check(cmd, args); err != nil {
				return err
			}
			if entry.wrap != "" && (len(rest) > 0 || cmd.Flags().Changed("name")) {
				return misuse(cmd, "runnel install: --wrap does not go with --name or arguments after --: "+
					"it keeps the name and the command of a server that is there")
			}
			if len(rest) > 0 && len(given) > 0 {
				return misuse(cmd, "--%s: put it after --, where all arguments of runnel stand",
					given[0].flag)
			}
			if len(rest) > 0 {
				if err := i.checkRest(cmd, rest); err != nil {
					return err
				}
			}
			i.Options.From = map[string]string{}
			for _, g := range given {
				i.Options.From[g.flag] = "--" + g.flag
			}
			if len(args) == 0 {
				var err error
				if args, err = i.askForHosts(cmd); err != nil || len(args) == 0 {
					return err
				}
			}
			return i.install(cmd, args, entry, given, rest)
		},
	}
	entry = addEntryFlags(cmd.Flags())
	cmd.Flags().StringVar(&entry.wrap, "wrap", "", "put runnel before the server `NAME` that the file has; "+
		"its environment stays, and uninstall --name undoes it")
	i.flags.VisitAll(func(f *pflag.Flag) {
		own := *f
		own.Hidden = !slices.Contains([]string{"config", "tool", "set", "sync-wait", "max-result"}, f.Name)
		own.Value = notedFlag{f.Value, func(text string) { given = append(given, givenFlag{f.Name, text}) }}
		if own.DefValue == "[]" { // pflag leaves it out for its own type of a list only
			own.DefValue = ""
		}
		cmd.Flags().AddFlag(&own)
	})
	return cmd
}

// install writes the entry into the files of all hosts named. One that is refused does not stop the others.
func (i *invocation) install(cmd *cobra.Command, ids []string, entry *entryFlags, given []givenFlag,
	rest []string) error {
	if err := i.checkGiven(cmd.Context(), given); err != nil {
		return err
	}
	if slices.ContainsFunc(rest, holdsPassword) {
		return misuse(cmd, "the arguments after -- have a URL with a password, which would be written "+
			"into the host's file: let runnel read it from a file or the environment (runnel help states)")
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, i.installInto(cmd, hosts.Find(id), entry, given, rest))
	}
	return errors.Join(errs...)
}

// installInto writes the entry into the file of one host.
func (i *invocation) installInto(cmd *cobra.Command, h *hosts.Host, entry *entryFlags, given []givenFlag,
	rest []string) error {
	path, records, err := entry.file(i, h)
	if err != nil {
		return err
	}
	server, note, err := i.entryFor(cmd, h, entry, given, rest)
	if err != nil {
		return err
	}
	if entry.wrap != "" {
		return i.wrapEntry(h, entry, path, server, records)
	}
	mode := os.FileMode(0o600)
	if entry.scope.Word == "project" {
		mode = 0o644
	}
	change, err := h.Install(path, entry.name, server, records, mode)
	if err != nil {
		return err
	}
	if change.Nothing() {
		i.Say(zerolog.InfoLevel, fmt.Sprintf("%s: %s has this server already", h.Title, change.Path))
		return nil
	}
	if change.Dir, err = os.Getwd(); err != nil {
		return err
	}
	if was, dir := change.Replaces(); dir != "" && dir != change.Dir && entry.scope.Word == "user" {
		return fmt.Errorf("%s: its server %s was installed in %s, and starts\n  %s\nIt stays. Give yours "+
			"a name of its own with --name, or write it into this project's file with --scope project; to "+
			"replace the other, first: runnel uninstall %s --name %s",
			h.Title, entry.name, term.Quote(dir), term.Quote(append([]string{was.Command}, was.Args...)...),
			h.ID, entry.name)
	}
	next := []string{h.After, "Can it start? runnel doctor " + h.ID}
	if note != "" {
		next = append([]string{note}, next...)
	}
	if h.Here(hosts.This(i.Getenv)) == "" {
		next = append(next,
			h.Title+" was not found on this machine: it will read the file once it is installed.")
	}
	return i.makeChange(entry, change,
		fmt.Sprintf("%s: the server %s is in %s", h.Title, entry.name, change.Path), next...)
}

// wrapEntry puts runnel before a server that the host's file has.
func (i *invocation) wrapEntry(h *hosts.Host, entry *entryFlags, path string, wrapper hosts.Server,
	records hosts.Records) error {
	change, err := h.Wrap(path, entry.wrap, wrapper, records)
	switch {
	case err != nil:
		return err
	case change.Nothing():
		i.Say(zerolog.InfoLevel, fmt.Sprintf("%s: in %s, runnel wraps the server %s already", h.Title,
			change.Path, entry.wrap))
		return nil
	}
	undo := term.Quote("runnel", "uninstall", h.ID, "--scope", entry.scope.Word, "--name", entry.wrap)
	done := fmt.Sprintf("%s: in %s, runnel wraps the server %s", h.Title, change.Path, entry.wrap)
	return i.makeChange(entry, change, done, h.After, "to undo it: "+undo)
}

// makeChange makes a change, or shows it, and then says so, and what comes next.
func (i *invocation) makeChange(entry *entryFlags, change *hosts.Change, done string, next ...string) error {
	if entry.dryRun {
		_, err := io.WriteString(i.Stdout, term.PrintableLines(change.Diff()))
		return err
	}
	if err := change.Apply(); err != nil {
		return err
	}
	if change.Removes() {
		done += ", which install had created, and which was removed, too"
	}
	if change.Backup != "" {
		next = append([]string{"backup of the file: " + change.Backup}, next...)
	}
	i.Say(zerolog.InfoLevel, strings.Join(append([]string{done}, next...), "\n  "))
	return nil
}

// checkGiven refuses tools, a config or a state with which the host could not start runnel.
func (i *invocation) checkGiven(ctx context.Context, given []givenFlag) error {
	const hint = "nothing was installed: fix this, then install again"
	for _, g := range given {
		if g.flag != "state" || !strings.Contains(g.text, "://") {
			continue
		}
		conf := config.Default()
		conf.State.Dir = g.text
		// It does not connect.
		if _, err := serve.OpenURL(conf, i.Getenv, false, nil, zerolog.Nop()); err != nil {
			if usage, ok := errors.AsType[*serve.UsageError](err); ok {
				usage.Hint = hint
			}
			return err
		}
	}
	if !slices.ContainsFunc(given, func(g givenFlag) bool { return g.flag == "config" || g.flag == "tool" }) {
		return nil
	}
	conf, _, _, err := i.ReadConfigs(ctx)
	if err == nil {
		_, _, err = i.Registry(conf)
	}
	if err != nil {
		return &serve.UsageError{Err: err, Hint: hint}
	}
	return nil
}

// checkRest refuses arguments after -- with which runnel would not serve.
func (i *invocation) checkRest(cmd *cobra.Command, rest []string) error {
	other := &invocation{Setup: serve.Setup{Env: i.Env, Stdout: io.Discard, Stderr: io.Discard}}
	server, args, err := other.command(true).Find(rest)
	if err != nil {
		return misuse(cmd, "the arguments after --: %w", err)
	}
	if err := server.ParseFlags(args); err != nil {
		return misuse(cmd, "the arguments after --: %w", flagError(server, err))
	}
	args = server.Flags().Args()
	switch server.Name() {
	case "runnel", "serve":
		err = noArguments(server, args)
	case "wrap", "trace":
		if err = other.needServer(server, args); err != nil && other.target.isSelf() && len(args) > 0 {
			server, words := server.Name(), term.Quote(args...)
			return misuse(cmd, "the arguments after --: the server's command stands after a second one: "+
				"-- %s -- %s; "+
				"a server that the host has is wrapped by --wrap NAME instead", server, words)
		}
	default:
		err = fmt.Errorf("%s serves no tools: name serve, wrap or trace", server.CommandPath())
	}
	if err != nil {
		return misuse(cmd, "the arguments after --: %w", err)
	}
	return nil
}

// holdsPassword reports whether a word has a URL with a password. The URL of a state may have a token alone:
// nats://TOKEN@host.
func holdsPassword(word string) bool {
	return regexp.MustCompile(`://[^/?#\s]*:[^/?#\s]*@|(?i:nats|rediss?)://[^/?#\s]*@`).MatchString(word)
}

// askForHosts shows the hosts on this machine and, on a terminal, asks which the user means.
func (i *invocation) askForHosts(cmd *cobra.Command) ([]string, error) {
	system := hosts.This(i.Getenv)
	rows := [][]string{}
	var here []string
	for _, h := range hosts.Table {
		if found := h.Here(system); found != "" {
			here = append(here, h.ID)
			rows = append(rows, []string{h.ID, h.Title, found})
		}
	}
	if len(here) == 0 {
		return nil, fmt.Errorf("no host that runnel knows was found on this machine; you can still name one: %s", strings.Join(hosts.IDs(), ", "))
	}
	if err := term.PrintLines(i.Stdout, term.Table(rows)); err != nil {
		return nil, err
	}
	if !term.IsTerminal(i.Stdin) || !term.IsTerminal(i.Stderr) {
		i.Say(zerolog.InfoLevel, "Name the hosts that you want: runnel install "+here[0])
		return nil, nil
	}
	_, _ = io.WriteString(i.Stderr, "Install runnel into which of them? Names, or all: ")
	line := make(chan string, 1)
	go func() { // stays until the process ends if nobody answers
		text, _ := bufio.NewReader(i.Stdin).ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		words := strings.FieldsFunc(text,
			func(r rune) bool { return r == ' ' || r == ',' || r == '\t' || r == '\n' || r == '\r' })
		if slices.Equal(words, []string{"all"}) {
			words = here
		}
		return words, checkHosts(cmd, words)
	case <-cmd.Context().Done():
		return nil, context.Cause(cmd.Context())
	}
}

// completeHosts completes the ids of hosts that are not named yet.
func completeHosts(_ *cobra.Command, args []string,
	_ string) (words []cobra.Completion, d cobra.ShellCompDirective) {
	for _, h := range hosts.Table {
		if !slices.Contains(args, h.ID) {
			words = append(words, cobra.CompletionWithDesc(h.ID, h.Title))
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
