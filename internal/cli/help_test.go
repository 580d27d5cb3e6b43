package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runnel/internal/manual"
	"runnel/internal/serve"
)

// commandsOf are all commands that help shows.
func commandsOf(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, commandsOf(sub)...)
		}
	}
	return all
}

// The help of each command shows examples before all else.
func TestHelpShowsExamplesFirst(t *testing.T) {
	i := &invocation{Setup: serve.Setup{Env: environ(t)}}
	for _, cmd := range commandsOf(i.command(true)) {
		help := runCommand(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		_, rest, _ := strings.Cut(help.stdout, "\n\n")
		if help.code != exitFine || !strings.HasPrefix(rest, "Examples:\n  ") {
			t.Errorf("%s --help: exit code %d\n%.300s", cmd.CommandPath(), help.code, help.stdout)
		}
		if strings.Contains(rest, "(default [])") {
			t.Errorf("%s --help shows the default of a list that is empty", cmd.CommandPath())
		}
		if !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("no example of %s calls it:\n%s", cmd.CommandPath(), cmd.Example)
		}
	}
}

// The first help screen is short: few flags, and every command, in groups. Flags that it leaves out still
// work, where they mean something.
func TestFirstHelpScreen(t *testing.T) {
	t.Parallel()
	help := runCommand(t, "--help")
	var flags []string
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`).
		FindAllStringSubmatch(help.stdout, -1) {
		flags = append(flags, m[1])
	}
	if want := []string{"config", "tool", "state", "http", "no-stdio", "set", "log-level", "version",
		"help"}; !slices.Equal(flags, want) {
		t.Errorf("flags %q, want %q", flags, want)
	}
	if n := strings.Count(help.stdout, "\n"); n > 62 {
		t.Errorf("%d lines", n)
	}
	i := &invocation{Setup: serve.Setup{Env: environ(t)}}
	for _, cmd := range i.command(true).Commands() {
		if cmd.Hidden == (strings.Count(help.stdout, "\n  "+cmd.Name()+" ") == 1) {
			t.Errorf("%s is not shown once", cmd.Name())
		}
	}
	for range 2 {
		for _, args := range [][]string{
			{"--pace=1s"}, {"serve", "--max-line=1MiB"}, {"wrap", "--drain=1s", "--", "true"},
			{"tools", "--max-tasks=3"}, {"doctor", "--help", "--fallback-tools=never"},
		} {
			if got := runCommand(t, args...); got.code == exitUsage {
				t.Errorf("%q: %+v", args, got)
			}
		}
		for _, args := range [][]string{{"tasks", "list", "--pace=1s"}, {"top", "--http=:1"},
			{"fleet", "--max-line=1"}, {"work", "--no-stdio"}, {"trust", "--state=x"}} {
			name, _, _ := strings.Cut(args[len(args)-1], "=")
			runCommand(t, args...).is(t, exitUsage, "",
				"^unknown flag: "+name+": it is a flag of runnel serve, and means nothing here\nsee ")
		}
	}
}

// --set sets any key of the config, also one of a tool of the file, and says what is wrong with it.
func TestSet(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "runnel.yaml")
	if err := os.WriteFile(file, []byte("tools: {a: {command: [echo, of the file], maxResult: 1KiB}}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, wait := range []string{"tasks.syncWait=1ms", "tasks={syncWait: 1ms}"} {
		runCommand(t, "call", "a", "--config", file).is(t, exitFine, "of the file\n", "")
		runCommand(t, "call", "a", "--config", file, "--set", "tools.a.command=[echo, of the flag]").
			is(t, exitFine, "of the flag\n", "")
		runCommand(t, "tools", "--set", "tools.b={command: [echo]}", "-o", "ndjson", "--config", file).
			is(t, exitFine, `.*"name":"a".*\n.*"name":"b".*\n`, "")
		runCommand(t, "call", "nap", "--no-task", "-o", "ndjson", "--tool", "nap=sleep 0.2", "--set", wait).
			is(t, exitFine, `.*"runnel/task":{"taskId":.*`, "")
		runCommand(t, "tools", "--set", "selftest=true").is(t, exitFine, `.*\necho +.*`, "")
		runCommand(t, "tools", "--set", "tasks.ttl=soon").
			is(t, exitUsage, "", `^--set: tasks.ttl: "soon" is not a duration .*\nsee runnel tools --help\n`)
		runCommand(t, "tools", "--set", "tasks.ttl").
			is(t, exitUsage, "", `^--set: "tasks.ttl" has no value \(allowed: KEY=VALUE, such as tasks.ttl=2h\)\n`)
		runCommand(t, "tools", "--set", "limits.maxInFlight=0").
			is(t, exitUsage, "", `^--set limits.maxInFlight: 0 is out of range`)
	}
}

// There is a man page of each command and of each page of the manual, which man can read.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	if out, err := exec.Command("go", "run", "../../internal/cmd/man", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	i := &invocation{Setup: serve.Setup{Env: environ(t)}}
	for _, cmd := range commandsOf(i.command(true)) {
		page, err := os.ReadFile(filepath.Join(dir, "man1",
			strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if err != nil || !strings.HasPrefix(string(page), ".TH RUNNEL") ||
			!strings.Contains(string(page), ".SH EXAMPLES\n") {
			t.Errorf("%s: %v\n%.300s", cmd.CommandPath(), err, page)
		}
	}
	for _, topic := range manual.Topics() {
		page, err := os.ReadFile(filepath.Join(dir, "man7", "runnel-"+topic.Name+".7"))
		if err != nil || !strings.HasPrefix(string(page), ".TH RUNNEL-") ||
			strings.Contains(string(page), "](") {
			t.Errorf("%s: %v\n%.300s", topic.Name, err, page)
		}
	}
	if groff, err := exec.LookPath("groff"); err == nil {
		out, err := exec.Command("sh", "-c", groff+" -man -Tutf8 -ww "+dir+"/man?/* 2>&1 >/dev/null").
			CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("groff: %v\n%.1000s", err, out)
		}
	}
}

// A flag means one thing: -o is how a command prints, and --file a file that it writes.
func TestFlagsMeanOneThing(t *testing.T) {
	i := &invocation{Setup: serve.Setup{Env: environ(t)}}
	for _, cmd := range commandsOf(i.command(true)) {
		for _, name := range []string{"json", "ndjson"} {
			if cmd.Flags().Lookup(name) != nil {
				t.Errorf("%s has --%s", cmd.CommandPath(), name)
			}
		}
		if f := cmd.Flags().Lookup("output"); f != nil {
			if c, ok := f.Value.(*serve.Choice); !ok || f.Shorthand != "o" || c.Words[0] != "text" ||
				c.Words[1] != "json" {
				t.Errorf("%s: -o is %v", cmd.CommandPath(), f.Value)
			}
		}
	}
}

// No help is wider than 100 columns in a pipe, but for messages of the protocol, which are one line each.
func TestHelpFitsTheScreen(t *testing.T) {
	var all [][]string
	i := &invocation{Setup: serve.Setup{Env: environ(t)}}
	for _, cmd := range commandsOf(i.command(true)) {
		all = append(all, append(strings.Fields(cmd.CommandPath())[1:], "--help"))
	}
	for _, topic := range manual.Topics() {
		all = append(all, []string{"help", topic.Name})
	}
	for _, args := range all {
		for line := range strings.Lines(runCommand(t, args...).stdout) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 &&
				strings.Contains(strings.TrimLeft(line, " -"), " ") &&
				!strings.Contains(line, `{"jsonrpc":`) {
				t.Errorf("runnel %s has a line of %d columns: %s", strings.Join(args, " "), n, line)
			}
		}
	}
}

// "runnel help TOPIC" shows each page of the manual: plain in a pipe.
func TestHelpShowsTheManual(t *testing.T) {
	for _, topic := range manual.Topics() {
		help := runCommand(t, "help", topic.Name)
		if help.code != exitFine || !strings.HasPrefix(help.stdout, topic.Name+"\n\n"+topic.About+"\n") ||
			!strings.HasSuffix(topic.About, ".") {
			t.Errorf("%s: exit code %d\n%.200s", topic.Name, help.code, help.stdout)
		}
		for line := range strings.Lines(help.stdout) {
			if strings.Contains(line, "\x1b") || strings.Contains(line, "](") {
				t.Errorf("%s: not plain: %s", topic.Name, line)
			}
		}
	}
	if help := runCommand(t, "help", "nosuch"); help.code != exitUsage {
		t.Errorf("a topic that does not exist: %+v", help)
	}
}

// Commands that README.md, the manual and the help show are commands, with flags that they have. Those with
// quotes are tried elsewhere.
func TestShownCommandsParse(t *testing.T) {
	i := &invocation{Setup: serve.Setup{Env: environ(t)}}
	pages, err := filepath.Glob("../manual/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$").
			FindAllStringSubmatch(string(text), -1) {
			shown = append(shown, block[1])
		}
	}
	for _, cmd := range commandsOf(i.command(true)) {
		shown = append(shown, cmd.Example)
	}
	lines := regexp.MustCompile(`(?m)^ *runnel ([^'"|>&;#\n]*)(['"]?)`).
		FindAllStringSubmatch(strings.Join(shown, "\n"), -1)
	tried := 0
	for _, line := range lines {
		if line[2] != "" {
			continue
		}
		tried++
		cmd, rest, err := i.command(true).Find(strings.Fields(line[1]))
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err != nil && !errors.Is(err, pflag.ErrHelp) {
			t.Errorf("runnel %s: %v", line[1], err)
		}
	}
	if tried < 40 {
		t.Errorf("tried %d", tried)
	}
}
