package e2e

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"runnel/internal/cli"
)

// The exit codes that "runnel help environment" names.
const (
	exitFine        = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
	exitUnread      = 141
)

// outcome is what a run of the program with an empty input gives.
type outcome struct {
	code           int
	stdout, stderr string
}

func runEmpty(t *testing.T, args []string, variables ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Run(context.Background(), args, append(environ(t), variables...), strings.NewReader(""),
		&stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// Wrong use exits 2; one line on stderr says what is wrong, and where it comes from.
func TestWrongUse(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "runnel.yaml")
	if err := os.WriteFile(file, []byte("tools:\n  echo:\n    command: [echo]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing.yaml")
	for _, c := range []struct {
		args []string
		env  []string
		says string
	}{
		{args: []string{"--no-such-flag"}, says: "unknown flag: --no-such-flag\nsee runnel --help\n"},
		{args: []string{"--confg", "x"},
			says: "unknown flag: --confg (did you mean --config?)\nsee runnel --help\n"},
		{args: []string{"-config", "x"},
			says: "unknown shorthand flag: 'c' in -config (did you mean --config?)\nsee runnel --help\n"},
		{args: []string{"--doctor"}, says: "unknown flag: --doctor (did you mean doctor?)\nsee runnel --help\n"},
		{args: []string{"tasks", "lst"},
			says: "unknown command \"lst\" (did you mean list?)\nsee runnel tasks --help\n"},
		{args: []string{"completion", "tcsh"},
			says: "unknown command \"tcsh\"\nsee runnel completion --help\n"},
		{args: []string{"call", "x", "--protocol", "1999-01-01"},
			says: "--protocol: \"1999-01-01\" is unknown (allowed: 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28)\nsee runnel call --help\n"},
		{args: []string{"-q"}, says: "unknown shorthand flag: 'q' in -q\nsee runnel --help\n"},
		{args: []string{"--a=5"}, says: "unknown flag: --a\nsee runnel --help\n"},
		{args: []string{"trace", "--file"},
			says: "flag needs an argument: --file\nsee runnel trace --help\n"},
		{args: []string{"call", "t", "--json", "{}"},
			says: "unknown flag: --json (write --input for the arguments, -o json for the result)\nsee runnel call --help\n"},
		{args: []string{"tasks", "list", "--json"},
			says: "unknown flag: --json (write -o json)\nsee runnel tasks list --help\n"},
		{args: []string{"wrap", "--header", "A: b", "--", "npx"},
			says: "--header and --header-file go with --url\nsee runnel wrap --help\n"},
		{args: []string{"wrap", "npx"},
			says: "runnel wrap: unknown argument \"npx\": the server's command comes after --, or --url names it\nsee runnel wrap --help\n"},
		{args: []string{"tasks", "list", "--watch"},
			says: "runnel tasks list: --watch draws on a terminal; a script waits with runnel tasks wait ID\nsee runnel tasks list --help\n"},
		{args: []string{"srve"}, says: "unknown command \"srve\" (did you mean serve?)\nsee runnel --help\n"},
		{args: []string{"serve", "now"},
			says: "runnel serve: unknown argument \"now\"\nsee runnel serve --help\n"},
		{args: []string{"completion"},
			says: "runnel completion: for which shell? bash, fish, powershell or zsh\nsee runnel completion --help\n"},
		{args: []string{"completion", "foo"},
			says: "unknown command \"foo\"\nsee runnel completion --help\n"},
		{args: []string{"completion", "bsh"},
			says: "unknown command \"bsh\" (did you mean bash?)\nsee runnel completion --help\n"},
		{args: []string{"completion", "bash", "x"},
			says: "runnel completion bash: unknown argument \"x\"\nsee runnel completion bash --help\n"},
		{args: []string{"help", "nope"}, says: "unknown command \"nope\"\nsee runnel --help\n"},
		{args: []string{"help", "tasks", "tial"},
			says: "unknown command \"tial\" (did you mean tail?)\nsee runnel tasks --help\n"},
		{args: []string{"config"}, says: "runnel config needs a command: check or schema\nsee runnel config --help\n"},
		{args: []string{"--max-result", "3"},
			says: "--max-result: 3 is out of range (allowed: 1KiB to 960KiB)\nsee runnel --help\n"},
		{args: []string{"--max-line"}, says: "flag needs an argument: --max-line\nsee runnel --help\n"},
		{args: []string{"--max-line", "16MB"},
			says: "--max-line: \"16MB\" is not a size (allowed: a number of bytes, or one with KiB, MiB or GiB, such as 64KiB)\nsee runnel --help\n"},
		{args: []string{"--pace", "50"},
			says: "--pace: \"50\" is not a duration (allowed: a number and its unit, such as 300ms, 5s, 30m, 1h30m)\nsee runnel --help\n"},
		{args: []string{"--drain", "-2"},
			says: "--drain: \"-2\" is not a duration (allowed: such as 500ms or 2s, or -1 = until all calls are done)\nsee runnel --help\n"},
		{args: []string{"tasks", "prune", "--older", "-1h"},
			says: "--older: -1h is negative (allowed: 0 or more)\nsee runnel tasks prune --help\n"},
		{args: []string{"tasks", "prune", "--older", "abc"},
			says: "--older: \"abc\" is not a duration (allowed: a number and its unit, such as 300ms, 5s, 30m, 1h30m)\nsee runnel tasks prune --help\n"},
		{args: []string{"call", "sleep", "--timeout", "-1s"},
			says: "--timeout: -1s is negative (allowed: 0 or more)\nsee runnel call --help\n"},
		{args: []string{"tasks", "tail", "x", "--after", "-1"},
			says: "--after: \"-1\" is not a number of bytes or lines (allowed: a whole number, 0 or more)\nsee runnel tasks tail --help\n"},
		{args: []string{"--max-tasks", "0"},
			says: "--max-tasks: 0 is out of range (allowed: 1 or more)\nsee runnel --help\n"},
		{args: []string{"--log-level", "loud"},
			says: "--log-level: \"loud\" is unknown (allowed: debug, info, warn, error)\nsee runnel --help\n"},
		{args: []string{"--metrics", "foo"},
			says: "--metrics: \"foo\" is not an address (allowed: :PORT (loopback) or HOST:PORT)\nsee runnel --help\n"},
		{args: []string{"--metrics", ":99999"},
			says: "--metrics: \":99999\" is not an address (allowed: :PORT (loopback) or HOST:PORT)\nsee runnel --help\n"},
		{args: []string{"--selftest=perhaps"},
			says: "--selftest: \"perhaps\" is not a truth value (allowed: true, false)\nsee runnel --help\n"},
		{args: []string{"--tool", "echo"},
			says: "--tool: \"echo\" is not a tool (allowed: NAME=COMMAND, such as 'search=grep -rn {{pattern}} .')\n"},
		{args: []string{"--tool", "e=echo 'a"},
			says: "--tool: tool \"e\": Unterminated single-quoted string\n"},
		{args: []string{"--config", missing}, says: "--config: there is no config file " + missing + "\n"},
		{args: []string{"config", "check", missing}, says: "there is no config file " + missing + "\n"},
		{args: []string{"--config", file, "--tool", "echo=echo"},
			says: "--tool: tool \"echo\" is named twice, first by " + file + ":2:3\n"},
		{args: []string{"--tool", "a=echo", "--tool", "a=echo"},
			says: "--tool: tool \"a\" is named twice, first by --tool\n"},
		{args: []string{"--tool", "echo=echo", "--selftest"},
			says: "--selftest: tool \"echo\" is named twice, first by --tool\n"},

		{env: []string{"XDG_CONFIG_HOME=" + file},
			says: "looking for a config file: stat " + file + "/runnel/runnel.yaml: not a directory\n" +
				"name one with --config (/dev/null is an empty one), or set HOME or XDG_CONFIG_HOME to a directory that can be read\n"},
		{env: []string{"RUNNEL_CONFIG=" + missing},
			says: "RUNNEL_CONFIG: there is no config file " + missing + "\n"},
		{env: []string{"RUNNEL_MAX_IN_FLIGHT=many"},
			says: "RUNNEL_MAX_IN_FLIGHT: \"many\" is not a whole number (allowed: such as 0 or 100)\nsee runnel --help\n"},
		{env: []string{"RUNNEL_MAX_IN_FLIGHT=0"},
			says: "RUNNEL_MAX_IN_FLIGHT: 0 is out of range (allowed: 1 or more)\nsee runnel --help\n"},
		{env: []string{"RUNNEL_SELFTEST=perhaps"},
			says: "RUNNEL_SELFTEST: \"perhaps\" is not a truth value (allowed: true, false)\nsee runnel --help\n"},
		{env: []string{"RUNNEL_TOOL=echo"},
			says: "RUNNEL_TOOL: \"echo\" is not a tool (allowed: NAME=COMMAND, such as 'search=grep -rn {{pattern}} .')\n"},
		{env: []string{"RUNNEL_LOG_FORMAT=xml"},
			says: "RUNNEL_LOG_FORMAT: \"xml\" is unknown (allowed: auto, json, console)\nsee runnel --help\n"},
	} {
		got := runEmpty(t, c.args, c.env...)
		if want := (outcome{code: exitUsage, stderr: c.says}); got != want {
			t.Errorf("%q %q:\n got %+v\nwant %+v", c.args, c.env, got, want)
		}
	}
}

// With --log-format json every line of stderr is JSON, also what ends the program.
func TestWrongUseAsJSON(t *testing.T) {
	for _, c := range []struct{ args, env []string }{
		{args: []string{"--log-format", "json", "--max-tasks", "0"}},
		{args: []string{"--log-format", "json", "--max-taks", "0"},
			env: []string{"RUNNEL_LOG_FORMAT=console"}},
		{args: []string{"--max-taks", "0"}, env: []string{"RUNNEL_LOG_FORMAT=json"}},
		{args: []string{"--max-line", "x"}, env: []string{"RUNNEL_LOG_FORMAT=json"}},
		{args: []string{"call", "--bogus"}, env: []string{"RUNNEL_LOG_FORMAT=json"}},
		{args: []string{"bogus"}, env: []string{"RUNNEL_LOG_FORMAT=json"}},
		{args: []string{"tasks", "bogus"}, env: []string{"RUNNEL_LOG_FORMAT=json"}},
		{args: []string{"trace"}, env: []string{"RUNNEL_LOG_FORMAT=json"}},
	} {
		got := runEmpty(t, c.args, c.env...)
		if got.code != exitUsage || !strings.HasPrefix(got.stderr, `{"level":"error"`) ||
			strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%q %q: %+v", c.args, c.env, got)
		}
	}
}

// Messages for people are JSON, too, whatever the level of the log.
func TestSaidAsJSON(t *testing.T) {
	got := runEmpty(t, []string{"call", "echo", "text=x", "--selftest", "--summary", "--log-format", "json"})
	if got.code != exitFine || !strings.HasPrefix(got.stderr, `{"level":"info"`) ||
		!strings.Contains(got.stderr, "gaps 0") {
		t.Errorf("%+v", got)
	}
	got = runEmpty(t, []string{"tasks", "prune", "--state", "/nonexist"}, "RUNNEL_LOG_FORMAT=json",
		"RUNNEL_LOG_LEVEL=error")
	if got.code != exitFine || !strings.HasPrefix(got.stderr, `{"level":"info"`) ||
		!strings.Contains(got.stderr, "there is no state in /nonexist") {
		t.Errorf("%+v", got)
	}
}

// Every flag has a variable, and both spell the default that the config has.
func TestDefaultsInHelp(t *testing.T) {
	help := runEmpty(t, []string{"serve", "--help"})
	if help.code != exitFine || help.stderr != "" {
		t.Fatalf("%+v", help)
	}
	for _, want := range []string{
		"--sync-wait DURATION", "(default 50s)", "--max-result BYTES", "(default 32KiB)",
		"--tool NAME=COMMAND", "--selftest", "--config FILE",
		"--owner NAME", "--log-level LEVEL", "--log-format FORMAT", "RUNNEL_SYNC_WAIT", "--set KEY=VALUE",
	} {
		if !strings.Contains(help.stdout, want) {
			t.Errorf("help does not say %q", want)
		}
	}
}

func TestHelpAndCompletion(t *testing.T) {
	for args, says := range map[string]string{
		"help":            "Serve commands as MCP tools",
		"help tasks tail": "Write the output of a task",
		"completion bash": "__start_runnel",
		"completion zsh":  "#compdef runnel",
	} {
		if got := runEmpty(t, strings.Fields(args)); got.code != exitFine ||
			!strings.Contains(got.stdout, says) || got.stderr != "" {
			t.Errorf("%s: exit code %d, stdout %.100q, stderr %q", args, got.code, got.stdout, got.stderr)
		}
	}
}

func TestConfigCommands(t *testing.T) {
	good := filepath.Join("testdata", "config", "good", "full.yaml")
	want := outcome{stdout: good + ": fine, 3 tools\n" +
		"  deploy  sh: rsync -a build/ \"$host:/srv/\"\n" +
		"  review  model: anthropic claude-sonnet-4-5 at http://127.0.0.1:8080\n" +
		"  test    go test -v -run={{run}} {{packages}}\n"}
	if got := runEmpty(t, []string{"config", "check", good}); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := runEmpty(t, []string{"config", "check"}, "RUNNEL_CONFIG="+good); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	lines := filepath.Join(t.TempDir(), "lines.yaml")
	if err := os.WriteFile(lines, []byte(`tools: {two: {command: [sh, -c, "echo a\n\techo b"]}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	if got := runEmpty(t, []string{"config", "check", lines}); got.stdout != lines+
		": fine, 1 tool\n  two  sh -c echo a  echo b\n" {
		t.Errorf("%+v", got)
	}

	if err := os.WriteFile(lines, []byte(`tools: {two: {command: [echo, "{{x y}}", "{{json .}}"]}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	if got := runEmpty(t, []string{"config", "check", lines}); got.code != exitFine ||
		strings.Count(got.stderr, "as it is") != 1 ||
		!strings.HasPrefix(got.stderr,
			lines+`:1:31: tools.two.command[1]: "{{x y}}" goes to the command as it is`) {
		t.Errorf("%+v", got)
	}

	wrong := filepath.Join("testdata", "config", "wrong", "documents.yaml")
	want = outcome{code: exitUsage,
		stderr: wrong + ":4:1: a second document (allowed: one document in a file)\n" +
			"    4 | tools: {}\n      | ^\n"}
	for _, args := range [][]string{{"config", "check", wrong}, {"--config", wrong}} {
		if got := runEmpty(t, args); got != want {
			t.Errorf("%q: got  %+v\nwant %+v", args, got, want)
		}
	}

	got := runEmpty(t, []string{"config", "check"})
	if got.code != exitUsage || !strings.HasPrefix(got.stderr,
		"no config file: there is none at runnel.yaml, ") {
		t.Errorf("%+v", got)
	}
	got = runEmpty(t, []string{"config", "schema"})
	if got.code != exitFine || !strings.Contains(got.stdout,
		`"https://json-schema.org/draft/2020-12/schema"`) || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if got := runEmpty(t, args, "RUNNEL_VERSION=1.2.3"); got.code != exitFine ||
			!regexp.MustCompile(`^runnel \S+ \(.*go1\..*\)\n$`).MatchString(got.stdout) {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

// A state that cannot be written is told when serving begins, not when the first task fails of it.
func TestStateThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/dev/null/state", file} {
		got := runEmpty(t, []string{"--selftest", "--state", dir})
		if got.code != exitFine || !strings.Contains(got.stderr, `"error":"not a directory"`) ||
			!strings.Contains(got.stderr, "name another directory with --state, or --state memory") {
			t.Errorf("%s: %+v", dir, got)
		}
	}
}

// EOF and the end of the context, which is what a signal makes, are ways to end.
func TestExitFine(t *testing.T) {
	if got := runEmpty(t, []string{"--selftest"}); got.code != exitFine || got.stdout != "" {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out bytes.Buffer
	if code := cli.Run(ctx, nil, environ(t), strings.NewReader(""), &out, &out); code != exitFine {
		t.Errorf("exit code %d: %s", code, &out)
	}
}

// Somebody who starts the program in a terminal is told what it waits for, in one line; it goes on serving.
func TestTerminalGetsAHint(t *testing.T) {
	master, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close(); _ = terminal.Close() })
	var stdout, stderr syncBuffer
	done := make(chan int, 1)
	go func() {
		done <- cli.Run(context.Background(), []string{"--selftest", "--log-level=error"}, environ(t),
			terminal, &stdout, &stderr)
	}()
	if _, err := master.WriteString(initialize + "\n\x04"); err != nil { // Ctrl-D
		t.Fatal(err)
	}
	select {
	case code := <-done:
		if code != exitFine {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(watchdog):
		t.Fatal("Ctrl-D does not end the program")
	}
	if !strings.Contains(stdout.String(), `"protocolVersion"`) {
		t.Errorf("stdout: %q", stdout.String())
	}
	if s := stderr.String(); !strings.Contains(s, "terminal") || strings.Count(s, "\n") != 1 {
		t.Errorf("stderr: %q", s)
	}
}
