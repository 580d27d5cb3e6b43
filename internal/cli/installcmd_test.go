package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// inHome runs commands with one home and in one directory, which t leaves again.
func inHome(t *testing.T, vars ...string) (home string, run func(args ...string) outcome) {
	home = t.TempDir()
	t.Chdir(t.TempDir())
	env := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TERM=dumb"}, vars...)
	return home, func(args ...string) outcome {
		var stdout, stderr bytes.Buffer
		code := Run(t.Context(), args, env, strings.NewReader(""), &stdout, &stderr)
		return outcome{code, stdout.String(), stderr.String()}
	}
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each host gets runnel with its full path, what suits the host, and what the user gave.
func TestInstall(t *testing.T) {
	home, run := inHome(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("runnel.yaml", []byte("tools: {a: {command: [echo]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	desktop := filepath.Join(home, ".config", "Claude", "claude_desktop_config.json")
	if runtime.GOOS == "darwin" {
		desktop = filepath.Join(home, "Library", "Application Support", "Claude",
			"claude_desktop_config.json")
	}
	for _, c := range []struct {
		args []string
		file string
		want []string
	}{
		{[]string{"claude-code", "--tool", "a=echo {{b}}"}, filepath.Join(home, ".claude.json"),
			[]string{`"command": "` + self + `"`, `"args": ["--tool", "a=echo {{b}}"]`}},
		{[]string{"claude-code", "--tool", "a=echo {{b}}", "--selftest"}, filepath.Join(home, ".claude.json"),
			[]string{`"args": ["--tool", "a=echo {{b}}", "--selftest=true"]`}},
		{[]string{"codex", "--config", "runnel.yaml"}, filepath.Join(home, ".codex", "config.toml"),
			[]string{`args = ["--config", "` + here + `/runnel.yaml"]`}},
		{[]string{"codex", "--max-result=4KiB", "--config", "runnel.yaml"},
			filepath.Join(home, ".codex", "config.toml"),
			[]string{`args = ["--max-result", "4KiB", "--config", "`}},
		{[]string{"gemini"}, filepath.Join(home, ".gemini", "settings.json"), []string{`"args": []`}},
		{[]string{"claude-desktop"}, desktop,
			[]string{`"args": ["--config", "` + here + `/runnel.yaml"]`,
				`"env": {"PATH": "` + os.Getenv("PATH") + `"}`}},
		{[]string{"cursor", "--name", "other", "--", "wrap", "--", "npx", "x"},
			filepath.Join(home, ".cursor", "mcp.json"),
			[]string{`"other": {`, `"args": ["wrap", "--", "npx", "x"]`}},
		{[]string{"cursor", "--scope", "project", "--config", "runnel.yaml"}, ".cursor/mcp.json",
			[]string{`"args": ["--config", "${workspaceFolder}/runnel.yaml"]`}},
		{[]string{"claude-code", "--scope", "project", "--config", "runnel.yaml"}, ".mcp.json",
			[]string{`"args": ["--config", "runnel.yaml"]`}},
	} {
		got := run(append([]string{"install"}, c.args...)...)
		if got.code != exitFine || got.stdout != "" ||
			!strings.Contains(got.stderr, "Can it start? runnel doctor "+c.args[0]) {
			t.Errorf("%q: %+v", c.args, got)
		}
		text := read(t, c.file)
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%q: no %s in\n%s", c.args, want, text)
			}
		}
		if c.file == ".cursor/mcp.json" && strings.Contains(text, "PATH") {
			t.Errorf("others get this PATH:\n%s", text)
		}
	}
	run("uninstall", "claude-code", "codex", "gemini", "claude-desktop").
		is(t, exitFine, "", "was removed, too")
	run("uninstall", "claude-code", "cursor", "--scope=project").is(t, exitFine, "", "was removed, too")
	run("uninstall", "cursor", "--name", "other").is(t, exitFine, "", "was removed, too")
	for _, file := range []string{filepath.Join(home, ".claude.json"),
		filepath.Join(home, ".cursor", "mcp.json"), ".mcp.json"} {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s is still there", file)
		}
	}
}

// In another project, install leaves the entry of the first one as it is, and says what there is and what to
// do.
func TestInstallInASecondProject(t *testing.T) {
	home, run := inHome(t)
	first, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, ".codex", "config.toml")
	run("install", "codex", "--tool", "first=echo").is(t, exitFine, "", "the server runnel is in")
	// Its own project may replace it.
	run("install", "codex", "--tool", "first=echo 1").is(t, exitFine, "", "the server runnel is in")
	before := read(t, file)
	t.Chdir(t.TempDir())
	for range 2 {
		run("install", "codex", "--tool", "second=echo").is(t, exitFailure, "",
			"server runnel was installed in "+regexp.QuoteMeta(first)+
				`, and starts\n.*'first=echo 1'\nIt stays\. .*--name.*--scope project.*runnel uninstall codex --name runnel`)
		run("install", "codex", "--dry-run", "--tool", "second=echo").is(t, exitFailure, "", "It stays")
		if got := read(t, file); got != before {
			t.Fatal(got)
		}
	}
	run("install", "codex", "--tool", "second=echo", "--name", "second").
		is(t, exitFine, "", "the server second is in")
	run("install", "cursor", "--tool", "second=echo", "--scope", "project").
		is(t, exitFine, "", "the server runnel is in")
	run("uninstall", "codex").is(t, exitFine, "", "was removed from")
	run("install", "codex", "--tool", "second=echo").is(t, exitFine, "", "the server runnel is in")
}

// --dry-run shows the difference and writes nothing, not even the state.
func TestInstallDryRun(t *testing.T) {
	home, run := inHome(t)
	run("install", "claude-code", "--dry-run", "--tool", "a=echo").
		is(t, exitFine, `--- .*\+  "mcpServers": \{\n.*`, "")
	if list, _ := os.ReadDir(home); len(list) > 0 {
		t.Error(list)
	}
}

// A mistake is reported in words that help, before any file is written.
func TestInstallRefuses(t *testing.T) {
	home, run := inHome(t)
	if err := os.WriteFile(filepath.Join(home, ".claude.json"), []byte(`{"a": `), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"install", "claud-code"}, exitUsage,
			`unknown host "claud-code" \(allowed: claude-code, .*did you mean claude-code\?`},
		{[]string{"install", "codex", "--name", "a b"}, exitUsage, `--name: "a b" is not a name`},
		{[]string{"install", "codex", "--config", "nothing.yaml"}, exitUsage,
			`--config: there is no config file nothing.yaml\nnothing was installed`},
		{[]string{"install", "codex", "--tool", "a=x", "--", "wrap"}, exitUsage, `--tool: put it after --`},
		{[]string{"install", "codex", "--sync-wait", "x"}, exitUsage, `--sync-wait: .*`},
		{[]string{"install", "codex", "--tool", "a=x", "--state", "redis://u:secret@h"}, exitUsage,
			`--state: the URL of a state holds no credentials: put USER PASSWORD in a file.*RUNNEL_REDIS_CREDS\nnothing was installed`},
		{[]string{"install", "codex", "--tool", "a=x", "--state=rediss://h:6379/0?creds=f", "--dry-run"},
			exitFine, ``},
		{[]string{"install", "codex", "--tool", "a=x", "--state", "ftp://h"}, exitUsage,
			`--state: ftp:// is not a state that runnel knows`},
		{[]string{"install", "codex", "--dry-run", "--", "--state", "nats://token@h"}, exitUsage,
			`^the arguments after -- have a URL with a password`},
		{[]string{"install", "codex", "--dry-run", "--", "--tool", "a=git fetch ssh://git@h/x"},
			exitFine, ``},
		{[]string{"install", "codex", "--", "serve", "--state=nats://u:secret@h"}, exitUsage,
			`^the arguments after -- have a URL with a password`},
		{[]string{"install", "codex", "--", "wrap", "github"}, exitUsage,
			`the arguments after --: the server's command stands after a second one: -- wrap -- github; a server that the host has is wrapped by --wrap NAME instead`},
		{[]string{"install", "codex", "--", "wrap"}, exitUsage,
			`the arguments after --: runnel wrap: which server\?`},
		{[]string{"install", "codex", "--", "serve", "x"}, exitUsage,
			`the arguments after --: runnel serve: unknown argument "x"`},
		{[]string{"install", "codex", "--", "npx", "server"}, exitUsage,
			`the arguments after --: unknown command "npx"`},
		{[]string{"install", "codex", "--", "tools"}, exitUsage,
			`the arguments after --: runnel tools serves no tools: name serve, wrap or trace`},
		{[]string{"install", "codex", "--", "--tol", "a=x"}, exitUsage,
			`the arguments after --: unknown flag: --tol \(did you mean --tool\?\)`},
		{[]string{"install", "codex", "--dry-run", "--", "wrap", "--hung-after=1m", "--", "npx", "server",
			"--flag"}, exitFine, ``},
		{[]string{"install", "codex", "--dry-run", "--", "trace", "--file", "f", "--", "npx", "server"},
			exitFine, ``},
		{[]string{"install", "zed"}, exitUsage,
			`Zed starts its servers in another directory than this: name a tool`},
		{[]string{"install", "goose", "--scope", "project", "--tool", "a=x"}, exitFailure,
			`Goose has no file for one project`},
		{[]string{"install", "claude-code", "--tool", "a=x"}, exitFailure,
			`\.claude\.json: .*unexpected EOF; nothing was changed: fix the file first`},
		// Only a host whose file could be written is said to serve something.
		{[]string{"install", "claude-code"}, exitFailure,
			`^runnel: \S*\.claude\.json: .*unexpected EOF; nothing was changed: fix the file first`},
		{[]string{"install"}, exitFine, "Name the hosts that you want: runnel install claude-code"},
		{[]string{"uninstall"}, exitUsage, "from which host"},
		{[]string{"uninstall", "codex"}, exitFailure, `Codex: .*config.toml has no server "runnel"`},
		{[]string{"doctor", "codexx"}, exitUsage, "did you mean codex"},
	} {
		got := run(c.args...)
		got.stdout = "" // a list of what is here
		got.is(t, c.code, "", c.want)
	}
	if got := read(t, home, ".claude.json"); got != `{"a": ` {
		t.Error(got)
	}
}

// A host's runnel finds the trust and the tasks of the shell that has installed it: most hosts do not pass on
// the variables that say where these are. A project's file is for others, too.
func TestInstallKeepsPlaces(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("hosts pass on LOCALAPPDATA and APPDATA")
	}
	home, run := inHome(t, "XDG_STATE_HOME=/a/state", "XDG_CONFIG_HOME=/a/config")
	for range 2 {
		run("install", "cursor", "--tool", "a=x").is(t, exitFine, "", "Cursor: ")
		run("install", "cursor", "--tool", "a=x", "--scope", "project").is(t, exitFine, "", "Cursor: ")
	}
	const want = `"env": {"XDG_CONFIG_HOME": "/a/config", "XDG_STATE_HOME": "/a/state"`
	if text := read(t, home, ".cursor", "mcp.json"); !strings.Contains(
		strings.Replace(text, `"PATH": "`+os.Getenv("PATH")+`", `, "", 1), want) {
		t.Error(text)
	}
	if text := read(t, ".cursor/mcp.json"); strings.Contains(text, "XDG") {
		t.Error(text)
	}
}

// --wrap puts runnel before a server of the host, and uninstall takes it away.
func TestInstallWrap(t *testing.T) {
	home, run := inHome(t)
	file := filepath.Join(home, ".cursor", "mcp.json")
	const before = `{"mcpServers": {"my files": {"command": "npx", "args": ["x"], "env": {"A": "b"}}}}`
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		run("install", "cursor", "--wrap", "my files", "--sync-wait", "20s", "--dry-run").
			is(t, exitFine, `.*"--sync-wait", "20s", "--", "npx", "x"\], "env": \{"A": "b"\}.*`, "")
		run("install", "cursor", "--wrap", "my files", "--sync-wait", "20s").
			is(t, exitFine, "", `runnel uninstall cursor --scope user --name 'my files'`)
		run("install", "cursor", "--wrap", "my files").
			is(t, exitFine, "", "runnel wraps the server my files already")
		run("uninstall", "cursor", "--name", "my files").is(t, exitFine, "", "starts without runnel again")
		if got := read(t, file); got != before {
			t.Fatal(got)
		}
	}
	for range 2 { // nor is it removed when runnel has nothing to do with it
		run("uninstall", "cursor", "--name", "my files").
			is(t, exitFailure, "", `the server my files was not installed by runnel, and does not start it: it stays`)
		if got := read(t, file); got != before {
			t.Fatal(got)
		}
	}
	run("install", "cursor", "--wrap", "x", "--name", "y").is(t, exitUsage, "", "does not go with --name")
	run("install", "cursor", "--wrap", "x").
		is(t, exitFailure, "", `it has no server "x"; there are: my files`)
}
