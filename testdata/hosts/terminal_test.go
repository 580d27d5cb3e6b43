package hosts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
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

// run starts a program in a new terminal. Without env a program that has no arguments would be a shell's
// child, and kill would kill the shell.
func (term *terminal) run(argv ...string) {
	term.t.Helper()
	session := []string{"new-session", "-d", "-s", "host", "-x", "160", "-y", "50", "--", "env"}
	if out, err := term.tmux(append(session, argv...)...); err != nil {
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
		term.t.Errorf("%v, %v\n%s", err, scan, out)
		return
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		term.t.Error(err)
	}
	_, _ = term.tmux("kill-server")
	if !eventually(goneLimit, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }) {
		term.t.Errorf("%d lives after SIGKILL", pid)
	}
}

// settled is the file of a Claude Code that has been used before: it asks nothing at the start.
func (s Start) settled() {
	s.write(".claude.json", encode(object{
		"hasCompletedOnboarding": true, "theme": "dark", "numStartups": 5, "lastOnboardingVersion": "9.9.9",
		"autoUpdates":           false,
		"customApiKeyResponses": object{"approved": []string{key}, "rejected": []string{}},
		"projects": object{s.Project: object{"hasTrustDialogAccepted": true,
			"hasCompletedProjectOnboarding": true, "allowedTools": []string{"mcp__runnel"}}},
		"mcpServers": object{"runnel": object{"type": "stdio", "command": s.Server[0], "args": s.Server[1:]}},
	}))
	s.write(".claude/settings.json",
		encode(object{"permissions": object{"allow": []string{"mcp__runnel"}}, "spinnerTipsEnabled": false}))
}

// A sitting is what a person does at a terminal in which a host runs.
type sitting struct {
	name   string
	config string   // DIR stands for a directory of the run's own, PROJECT for the project's name
	tool   string   // the one that is called; "" = script
	hosts  []string // only these play it; nil = all
	asks   bool     // its user is asked
	tasks  bool     // only hosts with tasks play it
	plain  bool     // only the others play it
	play   func(s *seat, results []Result) []Call
	two    bool          // the same host is open in another project, too
	do     func(s *seat) // nil: wait until the model has ended
	check  func(s *seat)
	golden bool
}

// A seat is a person at a terminal.
type seat struct {
	*Run
	*terminal
	argv  []string
	after atomic.Int32 // requests of the host after the last call
	since atomic.Int32 // results that the model had when the host was started again; -1 = not yet known
	again atomic.Bool  // the host was started again
	other *seat        // in another project; nil = there is none
	read  sync.Map     // what the models of both have read, as keys
}

// calls calls the only tool a number of times, one after the other.
func calls(n int) func(*seat, []Result) []Call {
	return func(s *seat, results []Result) []Call {
		if len(results) >= n {
			s.after.Add(1)
			return nil
		}
		return []Call{{Tool: "script"}}
	}
}

// failingLong fails with more than Claude Code shows of an error.
const failingLong = `i=1; while [ $i -le 400 ]; do echo "main.go:$i: error $i of the compiler, in words"; i=$((i+1)); done; exit 2`

// gate is how a command waits for release.
const gate = `while [ ! -e DIR/go ]; do sleep 0.1; done;`

// pidFile is how a command says who it is.
const pidFile = `echo $$ $PPID > DIR/pids.new; mv DIR/pids.new DIR/pids;`

var sittings = []sitting{
	{
		name: "quick", golden: true, play: calls(1),
		config: `tools: {script: {description: Runs the script, shell: "sleep 1; echo hello from the script"}}`,
		check: func(s *seat) {
			s.readsAll(0, "hello from the script\n")
			if n := s.after.Load(); n != 1 {
				s.Errorf("%d requests of the model after the call", n)
			}
		},
	},
	{
		name: "failing", play: calls(1), // where it is cut depends on how long it took
		config: `tools: {script: {description: Runs the script, shell: '` + failingLong + `'}}`,
		check:  func(s *seat) { s.readsFailure(s.text(0)) },
	},
	{
		name: "failing-task", tasks: true, play: calls(1),
		config: `tools: {script: {description: Runs the script, shell: '` + gate + failingLong + `'}}`,
		do: func(s *seat) {
			s.waits(regexp.QuoteMeta(ended)) // it has a task in the background
			s.release()
			s.awaitNote()
		},
		check:  func(s *seat) { s.readsFailure(strings.Join(s.Notes, "\n")) },
		golden: true,
	},
	{
		name: "long", plain: true, golden: true,
		config: strings.Replace(buildConfig, "build:", "script:", 1),
		play: func(s *seat, results []Result) []Call {
			if len(results) == 0 {
				return []Call{{Tool: "script"}}
			}
			s.release()
			return next(results, nil)
		},
		check: func(s *seat) {
			for n := range 40 {
				s.readsOnce(fmt.Sprintf("[%d/40] compiling package %d\n", n+1, n+1))
			}
		},
	},
	{
		name: "huge", golden: true, play: calls(1),
		config: `tools: {script: {description: Runs the script, command: [seq, "1", "200000"]}}`,
		check: func(s *seat) {
			s.reads(0, "1\n2\n3\n")
			s.reads(0, " bytes left out: ")
			s.reads(0, "runnel://tasks/")
			s.reads(0, "\n200000")
			s.within(40 << 10)
		},
	},
	{
		name: "silent", golden: true, play: calls(1),
		config: `tools: {script: {description: Runs the script, command: ["true"]}}`,
		check:  func(s *seat) { s.reads(0, "exit code 0") },
	},
	{
		name: "five", golden: true, play: calls(5),
		config: `tools: {script: {description: Runs the script, shell: "echo the same"}}`,
		check: func(s *seat) {
			for n := range 5 {
				s.readsAll(n, "the same\n")
			}
		},
	},
	{
		// Both write to one state. A model reads what was called in its own project.
		name: "two", two: true,
		config: `tools: {script: {description: Runs the script, shell: 'touch DIR/PROJECT.here;
  while [ ! -e DIR/project.here -o ! -e DIR/other.here ]; do sleep 0.1; done; echo "in PROJECT"'}}`,
		play: func(s *seat, results []Result) []Call {
			if len(results) == 0 {
				return []Call{{Tool: "script"}}
			}
			s.read.Store(results[0].Text, true)
			return nil
		},
		do: func(s *seat) {
			s.other.submit(Prompt)
			s.waits(regexp.QuoteMeta(ended))
			s.other.waits(regexp.QuoteMeta(ended))
		},
		check: func(s *seat) {
			var texts []string
			s.read.Range(func(text, _ any) bool { texts = append(texts, text.(string)); return true })
			all := strings.Join(texts, "")
			if len(texts) != 2 || !strings.Contains(all, "in project") || !strings.Contains(all, "in other") {
				s.Errorf("the models read %q", texts)
			}
		},
	},
	{
		name: "question", asks: true, golden: true, play: calls(1),
		config: `tools: {script: {description: Runs the script, shell: "echo deployed", confirm: "Deploy to production?"}}`,
		do: func(s *seat) {
			if s.Host.Terminal.Accept != nil {
				s.answers(`Deploy to production\?`, s.Host.Terminal.Accept)
			}
			s.waits(regexp.QuoteMeta(ended))
		},
		check: func(s *seat) {
			if s.Host.Terminal.Accept != nil {
				s.readsAll(0, "deployed\n")
			} else if !strings.Contains(s.text(0), "confirm") && !strings.Contains(s.text(0), "deployed") {
				s.Errorf("the model read %q", s.text(0))
			}
		},
	},
	{
		name: "stop", play: calls(1),
		config: strings.Replace(waitConfig, "wait:", "script:", 1),
		do: func(s *seat) {
			command := s.command()
			ended := func() bool { return groupEnded(command) }
			pressed := time.Now()
			seen := pressed
			// How slow this machine is: by how much a pause was longer than it should be.
			var late time.Duration
			watched := func() bool {
				late = max(late, time.Since(seen)-pause)
				seen = time.Now()
				return ended()
			}
			stopped := eventually(runLimit, func() bool {
				for _, key := range s.Host.Terminal.Stop {
					s.keys(key)
					seen = time.Now()
					if eventually(between, watched) {
						return true
					}
				}
				return eventually(patience, watched) // a busy host may take two keys for two first ones
			})
			if !stopped {
				s.Errorf("the command lives %v after the keys that stop it:\n%s", runLimit, s.screen())
				_ = syscall.Kill(-command, syscall.SIGKILL)
			}
			// What is before is the host's: it decides when it cancels the call.
			var took time.Duration
			if !eventually(goneLimit, func() bool {
				i := slices.IndexFunc(s.list(),
					func(t listed) bool { return t.Tool == "script" && t.Status != "working" })
				if i >= 0 {
					took = seen.Sub(s.list()[i].LastUpdatedAt)
				}
				return i >= 0
			}) {
				s.Errorf("the stopped call is not listed: %+v", s.list())
			}
			s.Logf("the command has ended %.1f s after the first key, %.1f s after runnel got the cancel; pauses took up to %v more",
				seen.Sub(pressed).Seconds(), took.Seconds(), late.Round(time.Millisecond))
			if took > stopLimit+10*late {
				s.Errorf("the command lives %v after its cancel", took)
			}
		},
	},
	{
		name: "restart-task", tasks: true, play: calls(1),
		config: `tools: {script: {description: Runs the script, shell: '` + pidFile + `
  ` + gate + ` i=1; while [ $i -le 25 ]; do echo "[$i/25] a line"; i=$((i+1)); done'}}`,
		do: func(s *seat) {
			s.command()
			s.waits(ended)
			s.restart()
			s.release()
			s.awaitNote()
		},
		// A host that was killed may not have stored what it read of the call: no golden file.
		check: func(s *seat) {
			for n := range 25 {
				if line := fmt.Sprintf("[%d/25] a line\n", n+1); strings.Count(strings.Join(s.Notes, ""),
					line) != 1 {
					s.Errorf("the model has not read %q once", line)
				}
			}
		},
	},
	{
		// A plain call ends with its host; what it has printed until then is there.
		name: "restart", plain: true,
		config: `tools: {script: {description: Runs the script, shell: '
  i=1; while [ $i -le 25 ]; do echo "[$i/25] a line"; i=$((i+1)); done; ` + pidFile + ` sleep 1000'}}`,
		play: func(s *seat, results []Result) []Call {
			if !s.again.Load() {
				return []Call{{Tool: "script"}}
			}
			s.since.CompareAndSwap(-1, int32(len(results)))
			switch len(results) - int(s.since.Load()) {
			case 0:
				return []Call{{Tool: "list_tasks"}}
			case 1:
				if id := taskID(results[len(results)-1].Text); id != "" {
					return []Call{{"get_task_result", object{"task_id": id, "after": 0}}}
				}
			}
			return nil
		},
		do: func(s *seat) {
			command := s.command()
			s.restart()
			if !eventually(goneLimit, func() bool { return groupEnded(command) }) {
				s.Errorf("the command lives %v after its host", goneLimit)
				_ = syscall.Kill(-command, syscall.SIGKILL)
			}
			s.submit("Go on.")
			s.waits(regexp.QuoteMeta(ended))
		},
		check: func(s *seat) {
			for n := range 25 {
				s.reads(len(s.Results)-1, fmt.Sprintf("[%d/25] a line\n", n+1))
			}
		},
	},
}

// between is how long a person takes to press a key a second time: Copilot forgets the first one soon.
const between = 200 * time.Millisecond

// patience is how long a person waits before the keys are pressed again.
const patience = 10 * time.Second

// stopLimit is how long what was cancelled may live: the grace of a command, which is 5 s, and some time to be killed.
const stopLimit = 6 * time.Second

// command waits until the command runs, and returns its process group.
func (s *seat) command() int {
	s.Helper()
	name := filepath.Join(s.Dir, "pids")
	if !eventually(runLimit, func() bool { return exists(name) }) {
		s.Fatalf("the command did not start:\n%s", s.screen())
	}
	b, err := os.ReadFile(name)
	var group int
	if _, scan := fmt.Sscan(string(b), &group); err != nil || scan != nil {
		s.Fatal(err, scan)
	}
	return group
}

// endDaemon kills the processes of a host that outlive its terminal.
func (s *seat) endDaemon() {
	for pid, command := range left(s.start.Home) {
		if daemon := s.Host.Terminal.Daemon; daemon != "" && strings.Contains(command, daemon) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// restart kills the host in the middle of its work, and goes on with the session.
func (s *seat) restart() {
	s.Helper()
	s.kill()
	s.endDaemon()
	s.since.Store(-1)
	s.again.Store(true)
	s.run(append(s.argv, s.Host.Terminal.Again...)...)
	s.waits(s.Host.Terminal.Ready)
}

// submit is a prompt: it is typed, and sent until the host asks its model.
func (s *seat) submit(text string) {
	s.Helper()
	before := s.Model.Asked()
	s.keys("-l", text)
	s.waits(regexp.QuoteMeta(text))
	if !eventually(runLimit, func() bool {
		s.keys("Enter") // a host may take one right after the text for a part of it
		return eventually(3*time.Second, func() bool { return s.Model.Asked() > before })
	}) {
		s.Fatalf("the model is not asked:\n%s", s.screen())
	}
}

// awaitNote waits until the model has read that something in the background has ended.
func (s *seat) awaitNote() {
	s.Helper()
	if !eventually(runLimit, func() bool { return len(s.Model.Notes()) > 0 }) {
		s.Errorf("the model was not notified:\n%s", s.screen())
	}
}

// history checks that its user finds every call of a tool, with its host, also one that was stopped.
func (s *seat) history(tool string) {
	s.Helper()
	want := 0
	for _, c := range s.Calls {
		if c.Tool == tool {
			want++
		}
	}
	want = max(want, 1) // a host may forget the call in which it was killed
	if s.other != nil {
		want *= 2
	}
	complete := func() bool {
		ended := 0
		for _, t := range s.list() {
			if t.Tool == tool && t.Host != "" && t.Status != "working" {
				ended++
			}
		}
		return ended == want
	}
	if !eventually(goneLimit, complete) {
		s.Errorf("of %d calls the list has %+v", want, s.list())
	}
}

// listed is a task as its user sees it.
type listed struct {
	Tool, Host, Status string
	LastUpdatedAt      time.Time
}

func (s *seat) list() []listed {
	s.Helper()
	cmd := exec.Command(s.start.Server[0],
		append([]string{"tasks", "list", "-o", "json"}, s.start.Server[1:]...)...)
	var list struct{ Tasks []listed }
	if out, err := cmd.Output(); err != nil || json.Unmarshal(out, &list) != nil {
		s.Fatalf("%v\n%s", err, out)
	}
	return list.Tasks
}

// wrapping is what a host may add to a result.
const wrapping = 200

func (s *seat) readsAll(i int, want string) {
	s.Helper()
	if got := s.text(i); !strings.Contains(got, strings.TrimSuffix(want, "\n")) ||
		len(got) > len(want)+wrapping {
		s.Errorf("the model read %q for call %d, not %q", got, i, want)
	}
}

func (s *seat) readsFailure(text string) {
	s.Helper()
	for _, want := range []string{"main.go:1: error 1 of",
		"\nmain.go:400: error 400 of the compiler, in words\n", "exit code 2"} {
		if !strings.Contains(text, want) {
			s.Errorf("the model has not read %q: %s", want, shorten(text))
		}
	}
}

// TestTerminal is hosts as a person uses them, in a terminal. There Claude Code is a host with tasks, and
// headless it is not.
func TestTerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes, in make hosts")
	}
	all := append(slices.Clone(sittings), reviewSitting(provider(t)), releaseSitting())
	for _, h := range Hosts {
		if h.Terminal == nil {
			continue
		}
		t.Run(h.Name, func(t *testing.T) {
			program := install(t, h)
			for _, sit := range all {
				if sit.hosts != nil && !slices.Contains(sit.hosts, h.Name) {
					continue
				}
				if sit.tasks && !h.Terminal.Tasks || sit.plain && h.Terminal.Tasks {
					continue
				}
				t.Run(sit.name, func(t *testing.T) {
					if why := h.Terminal.Cannot[sit.name]; why != "" {
						t.Skip(why)
					}
					t.Parallel()
					sit.sit(t, h, program)
				})
			}
		})
	}
}

func (sit sitting) sit(t *testing.T, h Host, program string) {
	dir, err := os.MkdirTemp("", "terminal") // short: tmux has a socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h.Name += "-terminal"
	run := &Run{T: t, Host: h, Dir: dir}
	screen, trace := traces(t, h, Scenario{Name: sit.name})
	s := &seat{Run: run}
	run.Model, err = Serve(func(results []Result) []Call { return sit.play(s, results) }, trace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(run.Model.Close)
	s.open(sit, program, "home", "project")
	t.Cleanup(func() { fmt.Fprintln(screen, s.screen()) })
	if sit.two {
		second := *run // with a model of its own: who asks it is known
		second.Model, err = Serve(func(results []Result) []Call { return sit.play(s, results) }, trace)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(second.Model.Close)
		s.other = &seat{Run: &second}
		s.other.open(sit, program, "other-home", "other")
	}
	s.submit(Prompt)
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
	s.history(cmp.Or(sit.tool, "script"))
	golden(t, run, Scenario{Name: sit.name, NoGolden: !sit.golden})
}

// open starts the host in a terminal, and waits until it takes a prompt.
func (s *seat) open(sit sitting, program, home, project string) {
	s.Helper()
	binary, err := filepath.Abs(*runnel)
	if err != nil {
		s.Fatal(err)
	}
	start := Start{Home: filepath.Join(s.Dir, home), URL: s.Model.URL}
	start.Project = filepath.Join(s.Dir, project)
	for _, d := range []string{filepath.Join(start.Home, "tmp"), start.Project} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			s.Fatal(err)
		}
	}
	config := start.write("runnel.yaml",
		strings.NewReplacer("DIR", s.Dir, "PROJECT", project).Replace(sit.config))
	state := filepath.Join(s.Dir, "state")
	start.Server = []string{binary, "--config", config, "--state", state}
	_, env := s.Host.Start(start)
	if s.Host.Terminal.Settle != nil {
		s.Host.Terminal.Settle(start)
	}
	own := slices.DeleteFunc(start.environment(os.Getenv("PATH")), func(v string) bool {
		return strings.HasPrefix(v, "CI=")
	})
	s.terminal = newTerminal(s.T, start, append(append(own, env...), "TERM=xterm-256color"))
	s.Cleanup(func() { sweep(s.Run, start.Home, binary) })
	s.Cleanup(func() { s.kill(); s.endDaemon() }) // what a host does without a terminal is its own matter
	args := s.Host.Terminal.Args
	if sit.asks && s.Host.Terminal.Asking != nil {
		args = s.Host.Terminal.Asking
	}
	s.argv = argv(program, args...)
	s.run(s.argv...)
	s.waits(s.Host.Terminal.Ready)
}
