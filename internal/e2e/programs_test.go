package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"runnel/rpc/mcp"
)

// typing is one call of send_to_task, and what it must show.
type typing struct {
	send map[string]any
	want string
}

func types(line string) map[string]any       { return map[string]any{"text": line} }
func presses(names ...string) map[string]any { return map[string]any{"keys": names} }

// Interactive programs are driven end to end: prompts, a debugger, editors and pagers on the whole screen, menus,
// questions in order.
func TestInteractivePrograms(t *testing.T) {
	if os.Getenv("RUNNEL_TEST_PROGRAMS") == "" {
		t.Skip("ten programs, twice each: make programs has them")
	}
	t.Parallel()
	for name, program := range map[string]struct {
		tool   string // its config
		files  map[string]string
		begins string
		steps  []typing
		made   map[string]string // what the files hold in the end
	}{
		"python3": {
			tool:   `{command: [python3, -i, -q], interactive: true, env: {PYTHON_BASIC_REPL: "1"}}`,
			begins: ">>>",
			steps: []typing{{types("6*7\n"), "42\n>>>"},
				{types("for i in range(3): print('row', i)\n\n"), "row 2\n>>>"},
				{presses("Up", "Up", "Enter"), ">>>"}, {types("import sys; sys.exit(3)\n"), "exit code 3"}},
		},
		"node": {
			tool: `{command: [node, -i], interactive: true}`, begins: ">",
			steps: []typing{{types("6*7\n"), "42\n>"}, {types("[1,2].map(x => x * 10)\n"), "[ 10, 20 ]"},
				{presses("Up", "Enter"), "[ 10, 20 ]"}, {types(".exit\n"), "completed, exit code 0"}},
		},
		"sqlite3": {
			tool: `{command: [sqlite3], interactive: true}`, begins: "sqlite>",
			steps: []typing{{types("create table t(x); insert into t values (42);\n"), "sqlite>"},
				{types("select x * 2 from t;\n"), "84\nsqlite>"},
				{map[string]any{"eof": true}, "completed, exit code 0"}},
		},
		"gdb": {
			tool: `{command: [gdb, -q, -nx], interactive: true}`, begins: "(gdb)",
			steps: []typing{{types("print 6*7\n"), "$1 = 42\n(gdb)"},
				{types("quit\n"), "completed, exit code 0"}},
		},
		"vim": {
			tool:  `{command: [vim, -u, NONE, -N, note.txt], interactive: true}`,
			files: map[string]string{"note.txt": "one\ntwo\n"}, begins: "two",
			steps: []typing{{types("othree\n"), "three"}, {presses("Escape"), ""},
				{map[string]any{"text": ":%s/o/0/g\n", "screen": true}, "0ne\nthree\n"},
				{types(":wq\n"), "completed, exit code 0"}},
		},
		"less": {
			tool:  `{command: [less, long.txt], interactive: true, env: {LESS: ""}}`,
			files: map[string]string{"long.txt": numbers(200)}, begins: "line 30\n",
			steps: []typing{{presses("Space"), "line 60\n"}, {types("/line 150\n"), "line 150\n"},
				{map[string]any{"keys": []string{"g"}, "screen": true}, "line 1\nline 2\n"},
				{types("q"), "completed, exit code 0"}},
		},
		"top": {
			tool: `{command: [top, -d, "600"], interactive: true}`, begins: "PID",
			steps: []typing{{presses("h"), "Help for Interactive Commands"}, {presses("Escape"), "PID"},
				{types("q"), "completed, exit code 0"}},
		},
		"npm": {
			tool: `{command: [npm, init], interactive: true}`, begins: "package name:",
			steps: slices.Concat([]typing{
				{types("made-here\n"), "version:"}, {types("\n"), "description:"},
				{types("a test\n"), "entry point:"}, {types("\n"), "test command:"},
				{types("\n"), "git repository:"}, {types("\n"), "keywords:"}, {types("\n"), "author:"},
				{types("\n"), "license:"}}, npmType(),
				[]typing{{types("\n"), "OK?"}, {types("yes\n"), "completed, exit code 0"}}),
			made: map[string]string{"package.json": `"name": "made-here"`},
		},
		"ssh-keygen": {
			tool:  `{command: [ssh-keygen, -t, ed25519, -f, key], interactive: true}`,
			files: map[string]string{"key": "old", "key.pub": "old"}, begins: "Overwrite (y/n)?",
			steps: []typing{{types("n\n"), "exit code"}},
		},
		"git": {
			tool: `{shell: "git init -q . && for n in 1 2 3; do git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m step$n; done; ` +
				`GIT_EDITOR='vim -u NONE -N' git -c user.name=a -c user.email=a@example.com rebase -q --keep-empty -i HEAD~2 && git log --format=%s | cat", interactive: true}`,
			begins: "step3",
			steps:  []typing{{types("dd"), "step3"}, {types(":wq\n"), "completed, exit code 0"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(name); err != nil {
				t.Skipf("%s is not installed: .ci/run installs it", name)
			}
			for range 2 {
				config := writeConfig(t, "tools: {program: "+program.tool+"}")
				for file, content := range program.files {
					if err := os.WriteFile(filepath.Join(filepath.Dir(config[1]), file), []byte(content),
						0o600); err != nil {
						t.Fatal(err)
					}
				}
				w := newWitness(t, programCommand(t, append(config, "--state", "memory")...))
				p := begin(w, "program", nil)
				if !strings.Contains(p.read.String(), program.begins) {
					p.until(program.begins, map[string]any{"wait_ms": 100})
				}
				for _, s := range program.steps {
					p.until(s.want, s.send)
				}
				w.end()
				for file, want := range program.made {
					content, err := os.ReadFile(filepath.Join(filepath.Dir(config[1]), file))
					if err != nil || !strings.Contains(string(content), want) {
						t.Errorf("%s has %q: %v", file, content, err)
					}
				}
			}
		})
	}
}

// npmType is the question that npm asks after the license, from version 11 on.
func npmType() []typing {
	version, _ := exec.Command("npm", "--version").Output() // where it is not installed, nothing is asked
	major, _, _ := strings.Cut(string(version), ".")
	if n, err := strconv.Atoi(major); err != nil || n < 11 {
		return nil
	}
	return []typing{{types("\n"), "type:"}}
}

// numbers is so many numbered lines.
func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("line " + strconv.Itoa(i+1) + "\n")
	}
	return b.String()
}

// A session of 50 steps costs a model at most 1.2 times what has changed on the screen.
func TestWhatASessionCosts(t *testing.T) {
	t.Parallel()
	w := newWitness(t, programCommand(t,
		append(writeConfig(t, `tools: {sh: {command: [sh], interactive: true, env: {PS1: "% ", ENV: ""}}}`),
			"--state", "memory")...))
	p := begin(w, "sh", nil)
	paid, changed := 0, 0
	for n := range 50 {
		line := "echo step " + strconv.Itoa(n)
		got := p.types(line, "\nstep "+strconv.Itoa(n)+"\n%")
		paid += len(got)
		changed += len("% " + line + "\nstep " + strconv.Itoa(n) + "\n%")
	}
	if paid > changed*12/10 {
		t.Errorf("50 steps cost %d bytes, and %d bytes have changed", paid, changed)
	}
	t.Logf("50 steps cost %d bytes, and %d bytes have changed", paid, changed)
	var result mcp.CallToolResult
	w.must(&result, "tools/call", map[string]any{"name": "cancel_task",
		"arguments": map[string]any{"task_id": p.id}})
	w.end()
}
