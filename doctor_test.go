package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestDoctor(t *testing.T) {
	good := writeConfig(t, "tools:\n  list:\n    command: [ls, -l]\n  any:\n    shell: echo\n")
	missing := writeConfig(t, "tools:\n  gone:\n    command: [no-such-program]\n  here:\n    command: [./program]\n    dir: /\n")
	wrong := filepath.Join("testdata", "config", "wrong", "documents.yaml")
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{nil, exitFine, []string{`ok     version: runnel`, `ok     config: /dev/null`, `ok     session, 2025-11-25: 2025-11-25, `, `ok     session, stateless era: 2026-07-28, `}},
		{good, exitFine, []string{`ok     config: .*runnel.yaml$`, `ok     tools: 2`, `ok     tool any: /.*/sh`, `ok     tool list: /.*/ls`}},
		{missing, exitFailure, []string{`WRONG  tool gone: there is no program "no-such-program" in PATH=`, `WRONG  tool here: `}},
		{[]string{"--config", wrong}, exitFailure, []string{`WRONG  config: .*documents.yaml:4:1: `, `ok     session, 2025-11-25`}},
		{[]string{"--tool", "x"}, exitFailure, []string{`WRONG  tools: --tool: "x" is no tool`}},
	} {
		got := runClient(t, "", append([]string{"doctor"}, c.args...)...)
		if got.code != c.code || got.stderr != "" {
			t.Errorf("%q: exit code %d, stderr %q", c.args, got.code, got.stderr)
		}
		for _, want := range c.says {
			if !regexp.MustCompile("(?m)^" + want).MatchString(got.stdout) {
				t.Errorf("%q does not say %q:\n%s", c.args, want, got.stdout)
			}
		}
	}
}

// The state is looked at while it is in use, and what is wrong with it is told.
func TestDoctorOfAState(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	doctor := func() outcome { return people(t, "doctor", "--state", state) }
	doctor().is(t, exitFine, `.*ok     state: `+state+`: not there yet, the first task makes it\n.*`, "")
	if _, err := os.Stat(state); err == nil {
		t.Error("looking makes a state")
	}
	host := newWitness(t, programCommand(t, "--selftest", "--state", state))
	host.call("tools/call", map[string]any{"name": "sleep", "arguments": map[string]any{"ms": 600000}, "task": map[string]any{}})
	doctor().is(t, exitFine, `.*ok     state: `+state+`: 1 tasks, 1 of them not ended, 1 runnels using it, .*`, "")
	host.end()
	if err := os.Chmod(state, 0o777); err != nil {
		t.Fatal(err)
	}
	doctor().is(t, exitFailure, `.*WRONG  state: others may read or write it; .*`+state+` \(drwxrwxrwx\)\n.*`, "")
	if err := os.WriteFile(filepath.Join(state, "runnel.db"), []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	doctor().is(t, exitFailure, `.*WRONG  state: .*damaged or no state of runnel.*`, "")
	people(t, "doctor", "--state", "memory").is(t, exitFine, `.*ok     state: memory.*`, "")
	people(t, "doctor", "--state", "/dev/null/no").is(t, exitFailure, `.*WRONG  state: .*not a directory\n.*`, "")
}

// A host that starts it is told, and tells its user, what it can do.
func TestDoctorOfAHost(t *testing.T) {
	for flags, want := range map[string]string{
		"--protocol=2025-11-25": `initialize: runnel devel speaks 2025-11-25; it can do .*partials \(SEP-2679\).*\ntools/call doctor: as a task; with progress\n?`,
		"--protocol=2026-07-28": `server/discover: runnel devel speaks 2026-07-28; it can do .*tasks \(extension\).*\ntools/call doctor: with progress; with partial results\n?`,
	} {
		args := append([]string{"call", "doctor", flags, "--"}, builtProgram(t), "doctor", "--host")
		runClient(t, "", args...).is(t, exitFine, `What this host says, and asks for:\n`+want, `runnel doctor: the host: tools/call doctor: `)
	}
}

func TestLookUp(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"run": 0o700, "text": 0o600} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ program, dir, path, want string }{
		{"run", "", "/nowhere:" + dir, dir + "/run"}, {"text", "", dir, ""}, {"./run", dir, "", dir + "/run"},
		{dir + "/run", "/", "", dir + "/run"}, {"../run", dir, "", ""}, {filepath.Base(dir), "", filepath.Dir(dir), ""},
	} {
		if got := lookUp(c.program, c.dir, c.path); got != c.want {
			t.Errorf("%s in %s, PATH=%s: %q, want %q", c.program, c.dir, c.path, got, strings.TrimSpace(c.want))
		}
	}
}
