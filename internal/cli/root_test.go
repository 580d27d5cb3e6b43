package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"runnel/internal/serve"
)

// environ is an environment with nothing of the machine's own configuration.
func environ(t testing.TB) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TERM=dumb",
		"XDG_CONFIG_HOME=" + t.TempDir(), "XDG_STATE_HOME=" + t.TempDir(), "RUNNEL_STATE=memory"}
}

// outcome is what a run of the program with an empty input gives.
type outcome struct {
	code           int
	stdout, stderr string
}

func runCommand(t *testing.T, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := Run(t.Context(), args, append(environ(t), "RUNNEL_CONFIG="+os.DevNull), strings.NewReader(""),
		&stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

func (o outcome) is(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if o.code != code || !regexp.MustCompile("^(?s:"+stdout+")$").MatchString(o.stdout) ||
		!regexp.MustCompile(stderr).MatchString(o.stderr) || stderr == "" && o.stderr != "" {
		t.Errorf("exit code %d, want %d\nstdout %.500q\n  want %q\nstderr %.500q\n  want %q", o.code, code,
			o.stdout, stdout, o.stderr, stderr)
	}
}

// A server starts without the other commands, whose flags are a tenth of a start. What names one of them, or
// asks for help, finds it wherever it stands, and a word that is none is explained by all.
func TestServersStartWithoutTheOtherCommands(t *testing.T) {
	serves := []string{
		"", "serve", "--tool a=b --state memory", "wrap -- npx server", "--http 127.0.0.1:0", "cal",
		"--doctor",
	}
	for _, args := range serves {
		i := &invocation{Setup: serve.Setup{Env: environ(t)}}
		if root := i.command(!onlyServes(strings.Fields(args))); len(root.Commands()) != 2 {
			t.Errorf("runnel %s makes %d commands, not serve and wrap alone", args, len(root.Commands()))
		}
	}
	others := []string{
		"tools", "--state memory call x", "-h", "--help", "wrap --help", "help", "__complete x",
		"completion bash",
	}
	for _, args := range others {
		if onlyServes(strings.Fields(args)) {
			t.Errorf("runnel %s lacks its command", args)
		}
	}
	runCommand(t, "--state", "memory", "cal").
		is(t, exitUsage, "", `unknown command "cal" \(did you mean call\?\)`)
	runCommand(t, "--doctor").is(t, exitUsage, "", `did you mean doctor\?`)
	all := commandNames(Command())
	for _, cmd := range Command().Commands() {
		if !slices.Contains(all, cmd.Name()) {
			t.Errorf("%s is in no group of the help", cmd.Name())
		}
	}
}

// A flag wins over --set, --set over the flag's variable, a variable over the file, the file over the
// default.
func TestPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runnel.yaml")
	if err := os.WriteFile(file, []byte("limits: {maxInFlight: 7}\nserver: {owner: file}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, env []string
		inFlight  int
		owner     string
		tools     string
	}{
		{inFlight: 256, owner: "local"},
		{env: []string{"RUNNEL_CONFIG=" + file}, inFlight: 7, owner: "file"},
		{args: []string{"--config", file}, env: []string{"RUNNEL_CONFIG=/nothing/here"}, inFlight: 7,
			owner: "file"},
		{args: []string{"--config", file}, env: []string{"RUNNEL_MAX_IN_FLIGHT=8", "RUNNEL_OWNER="},
			inFlight: 8, owner: "file"},
		{args: []string{"--config", file, "--max-in-flight=9", "--owner", "flag"},
			env: []string{"RUNNEL_MAX_IN_FLIGHT=8", "RUNNEL_OWNER=env"}, inFlight: 9, owner: "flag"},
		{args: []string{"--config", file, "--set=server.owner=set", "--set=limits.maxInFlight=10"},
			env: []string{"RUNNEL_OWNER=env"}, inFlight: 10, owner: "set"},
		{args: []string{"--owner=flag", "--set=server.owner=set", "--set=limits={maxInFlight: 10}",
			"--max-in-flight=9"}, inFlight: 9, owner: "flag"},
		{env: []string{"RUNNEL_TOOL=a=x, y"}, inFlight: 256, owner: "local", tools: "a=x, y"},
		{args: []string{"--tool=b=x", "--tool=c=y"}, env: []string{"RUNNEL_TOOL=a=x"}, inFlight: 256,
			owner: "local", tools: "b=x|c=y"},
	} {
		i := &invocation{Setup: serve.Setup{Env: append(environ(t), c.env...)}}
		root := i.command(true)
		if err := root.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		if err := i.readEnvironment(root, true); err != nil {
			t.Fatal(err)
		}
		conf, _, err := i.LoadConfig(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if conf.Limits.MaxInFlight != c.inFlight || conf.Server.Owner != c.owner ||
			strings.Join(i.Options.Tools, "|") != c.tools {
			t.Errorf("%q %q: maxInFlight %d, owner %s, tools %q", c.args, c.env, conf.Limits.MaxInFlight,
				conf.Server.Owner, i.Options.Tools)
		}
	}
}

// Variables set what a server has. None changes what a command does, or a flag that only looks like one of a
// server.
func TestVariablesOnlySetAServer(t *testing.T) {
	t.Parallel()
	env := environ(t)
	run := func(args []string, variables ...string) outcome {
		var stdout, stderr bytes.Buffer
		code := Run(t.Context(), args, append(variables, env...), strings.NewReader(""), &stdout, &stderr)
		return outcome{code, stdout.String(), stderr.String()}
	}
	file := filepath.Join(t.TempDir(), "runnel.yaml")
	if err := os.WriteFile(file, []byte("tools: {a: {command: [echo, hi]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		variable string
		args     []string
	}{
		{"RUNNEL_REMOVE=1", []string{"trust", file}},
		{"RUNNEL_DRAIN=-1", []string{"work"}},
		{"RUNNEL_OUTPUT=json", []string{"call", "a", "--config", file}},
		{"RUNNEL_URL=http://127.0.0.1:1/mcp", []string{"call", "a", "--config", file}},
		{"RUNNEL_HEADER=A: b", []string{"call", "a", "--config", file}},
		{"RUNNEL_TIMEOUT=x", []string{"call", "a", "--config", file}},
	} {
		run(test.args) // trust says something else at the first time
		want := run(test.args)
		for range 2 {
			if got := run(test.args, test.variable); got != want {
				t.Errorf("%s: %+v, without it %+v", test.variable, got, want)
			}
		}
	}
}

// What people write for a flag that is not there names the right way.
func TestUnknownFlagsHint(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"tasks list --status failed": "unknown flag: --status (write --running or --failed)",
		"doctor codex --name second": "unknown flag: --name (runnel doctor HOST checks each server of the host that starts runnel)",
		"call greet --who world":     "unknown flag: --who (an argument of the tool is who=VALUE)",
		"call greet --timeot 1s":     "unknown flag: --timeot (did you mean --timeout?)",
	} {
		for range 2 {
			runCommand(t, strings.Fields(line)...).is(t, exitUsage, "", "^"+regexp.QuoteMeta(want)+"\n")
		}
	}
}

// A command that is called wrongly exits with 2, whichever it is: with an unknown flag, with an argument that
// it does not take, or without one that it needs.
func TestMisuseOfEachCommand(t *testing.T) {
	t.Parallel()
	var try func(cmd *cobra.Command, path []string)
	try = func(cmd *cobra.Command, path []string) {
		for _, sub := range cmd.Commands() {
			try(sub, append(slices.Clone(path), sub.Name()))
		}
		if len(path) == 0 || cmd.Name() == "help" {
			return
		}
		uses := [][]string{{"--no-such-flag"}}
		arguments := strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(cmd.Use, cmd.Name()),
			" [flags]"))
		switch {
		case cmd.HasSubCommands(): // which one?
			uses = append(uses, []string{"no-such-command"})
		case arguments == "" || strings.HasPrefix(arguments, "(--"):
			uses = append(uses, []string{"no-such-argument"})
		case !strings.HasPrefix(arguments, "["):
			uses = append(uses, nil)
		}
		for _, use := range uses {
			for range 2 {
				if got := runCommand(t, append(slices.Clone(path), use...)...); got.code != exitUsage ||
					got.stdout != "" || !strings.Contains(got.stderr, "see runnel ") {
					t.Errorf("%q: %+v", append(slices.Clone(path), use...), got)
				}
			}
		}
	}
	try(Command(), nil)
}
