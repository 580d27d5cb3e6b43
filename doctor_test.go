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
