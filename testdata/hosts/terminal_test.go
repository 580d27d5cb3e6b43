package hosts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// A terminal is a real one (tmux) in which a person would use a host.
type terminal struct {
	t      *testing.T
	socket string
	start  Start
	env    []string
}

func newTerminal(t *testing.T, start Start, env []string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatalf("%v: a terminal is needed, and tmux is one", err)
	}
	term := &terminal{t: t, socket: filepath.Join(start.Home, "tmux"), start: start, env: env}
	t.Cleanup(func() { _, _ = term.tmux("kill-server") })
	return term
}

func (term *terminal) tmux(args ...string) (string, error) {
	cmd := exec.Command("tmux", append([]string{"-f", os.DevNull, "-S", term.socket}, args...)...)
	cmd.Dir, cmd.Env = term.start.Project, term.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run starts a program in a new terminal.
func (term *terminal) run(argv ...string) {
	term.t.Helper()
	if out, err := term.tmux(append([]string{"new-session", "-d", "-s", "host", "-x", "160", "-y", "50", "--"}, argv...)...); err != nil {
		term.t.Fatalf("tmux: %v\n%s", err, out)
	}
}

// screen is what a person sees.
func (term *terminal) screen() string {
	out, _ := term.tmux("capture-pane", "-p", "-t", "host")
	return out
}

func (term *terminal) keys(keys ...string) {
	term.t.Helper()
	if out, err := term.tmux(append([]string{"send-keys", "-t", "host"}, keys...)...); err != nil {
		term.t.Errorf("tmux: %v\n%s", err, out)
	}
}

// waits waits until the screen shows something.
func (term *terminal) waits(pattern string) {
	term.t.Helper()
	re := regexp.MustCompile(pattern)
	if !eventually(runLimit, func() bool { return re.MatchString(term.screen()) }) {
		term.t.Fatalf("the screen never shows %s:\n%s", pattern, term.screen())
	}
}

// kill kills the program as a closed laptop or a crash does, and the terminal with it.
func (term *terminal) kill() {
	term.t.Helper()
	out, err := term.tmux("list-panes", "-t", "host", "-F", "#{pane_pid}")
	var pid int
	if _, scan := fmt.Sscan(out, &pid); err != nil || scan != nil {
		term.t.Fatalf("%v, %v\n%s", err, scan, out)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		term.t.Error(err)
	}
	_, _ = term.tmux("kill-server")
	if !eventually(goneLimit, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }) {
		term.t.Errorf("%d lives after SIGKILL", pid)
	}
}

// typed is what a person types, line by line.
func (term *terminal) typed(text string) {
	term.keys("-l", text)
	term.keys("Enter")
}

// settled is the file of a Claude Code that has been used before: it asks nothing at the start.
func (s Start) settled() {
	s.write(".claude.json", encode(object{
		"hasCompletedOnboarding": true, "theme": "dark", "numStartups": 5, "lastOnboardingVersion": "9.9.9", "autoUpdates": false,
		"customApiKeyResponses": object{"approved": []string{key}, "rejected": []string{}},
		"projects":              object{s.Project: object{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true, "allowedTools": []string{"mcp__runnel"}}},
		"mcpServers":            object{"runnel": object{"type": "stdio", "command": s.Server[0], "args": s.Server[1:]}},
	}))
	s.write(".claude/settings.json", encode(object{"permissions": object{"allow": []string{"mcp__runnel"}}, "spinnerTipsEnabled": false}))
}

// A sitting is what a person does at a terminal in which Claude Code runs.
type sitting struct {
	name   string
	config string // DIR stands for a directory of the run's own
	flags  []string
	calls  int // of the tool, which is the only one
	do     func(s *seat)
	check  func(s *seat)
	golden bool
}

// A seat is a person at a terminal.
type seat struct {
	*Run
	*terminal
	program string
	after   atomic.Int32 // requests of the host after the last call
}

// failingLong fails with more than Claude Code shows of an error.
const failingLong = `i=1; while [ $i -le 400 ]; do echo "main.go:$i: error $i of the compiler, in words"; i=$((i+1)); done; exit 2`

var sittings = []sitting{
	{
		name: "quick", calls: 1, golden: true,
		config: `tools: {script: {description: Runs the script, shell: "sleep 1; echo hello from the script"}}`,
		check: func(s *seat) {
			s.readsWhole(0, "hello from the script\n")
			if n := s.after.Load(); n != 1 {
				s.Errorf("%d requests of the model after the call", n)
			}
		},
	},
	{
		name: "failing", calls: 1, // where it is cut depends on how long it took
		config: `tools: {script: {description: Runs the script, shell: '` + failingLong + `'}}`,
		check:  func(s *seat) { s.readsFailure(s.text(0)) },
	},
	{
		name: "failing-task", calls: 1, flags: []string{"--immediate-wait", "100ms"},
		config: `tools: {script: {description: Runs the script, shell: 'sleep 2; ` + failingLong + `'}}`,
		do:     func(s *seat) { s.awaitNote() },
		check:  func(s *seat) { s.readsFailure(strings.Join(s.Notes, "\n")) },
		golden: true,
	},
	{
		name: "five", calls: 5, golden: true,
		config: `tools: {script: {description: Runs the script, shell: "echo the same"}}`,
		check: func(s *seat) {
			for n := range 5 {
				s.readsWhole(n, "the same\n")
			}
		},
	},
	{
		name: "stop", calls: 1,
		config: strings.Replace(waitConfig, "wait:", "script:", 1),
		do: func(s *seat) {
			command := s.command()
			s.keys("Escape")
			if !eventually(goneLimit, func() bool { return errors.Is(syscall.Kill(-command, 0), syscall.ESRCH) }) {
				s.Errorf("the command lives %v after Escape:\n%s", goneLimit, s.screen())
			}
		},
	},
	{
		name: "restart", calls: 1, flags: []string{"--immediate-wait", "100ms"},
		config: `tools: {script: {description: Runs the script, shell: '
  echo $$ $PPID > DIR/pids.new; mv DIR/pids.new DIR/pids;
  while [ ! -e DIR/go ]; do sleep 0.1; done; i=1; while [ $i -le 25 ]; do echo "[$i/25] a line"; i=$((i+1)); done'}}`,
		do: func(s *seat) {
			s.command()
			s.waits(ended)
			s.kill()
			s.run(s.program, "--continue")
			s.waits("❯")
			s.release()
			s.awaitNote()
		},
		check: func(s *seat) {
			for n := range 25 {
				if line := fmt.Sprintf("[%d/25] a line\n", n+1); strings.Count(strings.Join(s.Notes, ""), line) != 1 {
					s.Errorf("the model has not read %q once", line)
				}
			}
		},
		golden: true,
	},
}

// command waits until the command runs, and returns its process group.
func (s *seat) command() int {
	s.Helper()
	name := filepath.Join(s.Dir, "pids")
	if !eventually(runLimit, func() bool { _, err := os.Stat(name); return err == nil }) {
		s.Fatalf("the command did not start:\n%s", s.screen())
	}
	b, err := os.ReadFile(name)
	var group int
	if _, scan := fmt.Sscan(string(b), &group); err != nil || scan != nil {
		s.Fatal(err, scan)
	}
	return group
}

// awaitNote waits until the model has read that something in the background has ended.
func (s *seat) awaitNote() {
	s.Helper()
	if !eventually(runLimit, func() bool { return len(s.Model.Notes()) > 0 }) {
		s.Errorf("the model was not notified:\n%s", s.screen())
	}
}

func (s *seat) readsWhole(i int, want string) {
	s.Helper()
	if got := s.raw(i); got != want && got != strings.TrimSuffix(want, "\n") {
		s.Errorf("the model read %q for call %d, not %q", got, i, want)
	}
}

func (s *seat) readsFailure(text string) {
	s.Helper()
	for _, want := range []string{"main.go:1: error 1 of", "\nmain.go:400: error 400 of the compiler, in words\n", "exit code 2"} {
		if !strings.Contains(text, want) {
			s.Errorf("the model has not read %q: %s", want, shorten(text))
		}
	}
}

// TestTerminal is Claude Code as a person uses it, in a terminal: there it is a host with tasks, and headless
// it is not.
func TestTerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("two minutes, in make hosts")
	}
	h := Hosts[0]
	program := install(t, h)
	for _, sit := range sittings {
		t.Run(sit.name, func(t *testing.T) {
			t.Parallel()
			sit.play(t, h, program)
		})
	}
}

func (sit sitting) play(t *testing.T, h Host, program string) {
	binary, err := filepath.Abs(*runnel)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "terminal") // short: tmux has a socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	start := Start{Home: filepath.Join(dir, "home"), Project: filepath.Join(dir, "project")}
	for _, d := range []string{filepath.Join(start.Home, "tmp"), start.Project} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.Name += "-terminal"
	run := &Run{T: t, Host: h, Dir: dir}
	config := start.write("runnel.yaml", strings.ReplaceAll(sit.config, "DIR", dir))
	start.Server = append([]string{binary, "--config", config, "--state", filepath.Join(dir, "state")}, sit.flags...)
	_, trace := traces(t, h, Scenario{Name: sit.name})
	s := &seat{Run: run, program: program}
	run.Model, err = Serve(func(results []Result) []Call {
		if len(results) >= sit.calls {
			s.after.Add(1)
			return nil
		}
		return []Call{{Tool: "script"}}
	}, trace)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Model.Close()
	start.URL = run.Model.URL
	_, env := claudeCode(start)
	start.settled()
	env = append(append(start.environment(os.Getenv("PATH")), env...), "TERM=xterm-256color")
	s.terminal = newTerminal(t, start, env)
	defer sweep(run, start.Home, binary)
	defer func() { _, _ = s.tmux("kill-server") }()
	s.run(program)
	s.waits(`❯`)
	s.typed(Prompt)
	if sit.do != nil {
		sit.do(s)
	} else {
		s.waits(regexp.QuoteMeta(ended))
	}
	run.Calls, run.Results = run.Model.Read()
	run.Notes = run.Model.Notes()
	if sit.check != nil {
		sit.check(s)
	}
	golden(t, run, Scenario{Name: sit.name, NoGolden: !sit.golden})
}
