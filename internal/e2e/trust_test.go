package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// checkout is a directory with a runnel.yaml of somebody else, whose tool and whose server leave a mark when
// they start.
type checkout struct {
	t    *testing.T
	dir  string
	mark string
	env  []string
}

func newCheckout(t *testing.T) *checkout {
	t.Helper()
	dir := t.TempDir()
	c := &checkout{t: t, dir: filepath.Join(dir, "checkout"), mark: filepath.Join(dir, "mark"),
		env: environ(t)}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.write("")
	return c
}

func (c *checkout) write(more string) {
	c.t.Helper()
	config := "notify: {after: 0, command: [touch, " + c.mark +
		"]}\ntools:\n  leave-mark: {command: [touch, " + c.mark + "]}\n" + more +
		"upstreams:\n  theirs: {command: [touch, " + c.mark + "]}\n"
	if err := os.WriteFile(filepath.Join(c.dir, "runnel.yaml"), []byte(config), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *checkout) command(args ...string) *exec.Cmd {
	cmd := exec.Command(builtProgram(c.t), args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	return cmd
}

// run runs runnel in the directory with an input.
func (c *checkout) run(input string, args ...string) outcome {
	c.t.Helper()
	cmd := c.command(args...)
	var stdout, stderr strings.Builder
	cmd.Stdin = strings.NewReader(input)
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func (c *checkout) marked() bool {
	_, err := os.Stat(c.mark)
	return err == nil
}

const listAndCall = `{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/list"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"leave-mark","arguments":{}}}
`

// A config file that was only found in the current directory runs nothing before its user has trusted it,
// whatever runnel is asked to do there.
func TestUntrustedDirectory(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	path := regexp.QuoteMeta(filepath.Join(c.dir, "runnel.yaml"))
	left := `runnel: ` + path + ` is not used: it is not trusted yet\. Read it, then run: runnel trust ` +
		path + `\n`
	session := initialize + "\n" + listAndCall
	for _, try := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"__complete call ", exitFine, `:4\n`, "Completion"},
		{"__complete call leave-mark ", exitFine, `:4\n`, "Completion"},
		{"__complete tasks get ", exitFine, `:\d+\n`, "Completion"},
		{"tools", exitFailure, "", left},
		{"call echo text=x --selftest --state memory", exitFine, "x\n?", left},
		{"call leave-mark", exitFailure, "", left + `runnel: there is no tool "leave-mark"`},
		{"serve --drain -1", exitFine,
			`.*"instructions":"The tools of this project's runnel\.yaml are missing: it is not trusted yet\. .*the nearest one above.*run runnel trust in its directory.*unknown tool.*`, left},
		{"wrap --drain -1 -- " + builtProgram(t) + " --config /dev/null --selftest", exitFine,
			`.*unknown tool: .*leave-mark.*`, ""},
		{"tasks list --state /nonexistent", exitFine, "", "^there is no state in /nonexistent"},
		{"fleet --state /nonexistent", exitUsage, "", "^runnel fleet: workers"},
		{"doctor", exitFailure, `.*WRONG  config: ` + path +
			` is not used: it is not trusted yet\. [^\n]*\nok     temporary files: .*`, ""},
		{"config check", exitFine, `runnel.yaml: fine, 1 tool and those of another server\n  leave-mark .*\n  theirs +server: touch.*`,
			`^Unless you name it .* \(it is not trusted yet\) .*run: runnel trust ` + path + `\n$`},
	} {
		input := ""
		if strings.Contains(try.args, "--drain") { // it serves
			input = session
		}
		args := strings.Split(try.args, " ")
		got := c.run(input, args...)
		if args[0] == "wrap" { // its stderr is a log of what it does
			got.stderr = ""
		}
		got.is(t, try.code, try.stdout, try.stderr)
		if c.marked() {
			t.Fatalf("%s: something ran", try.args)
		}
	}

	// A command that looks at tasks has no tools to miss, but the tasks may be elsewhere.
	other := `runnel: tasks of the state and the owner that the config file names are not shown: ` + path +
		` is not used: .*`
	c.env = append(c.env, "RUNNEL_STATE=")
	// One with a mistake may name any.
	for _, more := range []string{"state: {dir: here}\n", "server: {owner: theirs}\n", "unknown: {}\n"} {
		c.write(more)
		c.run("", "tasks", "list").is(t, exitFine, "", other)
		c.run("", "tasks", "list", "--state", "/nonexistent", "--owner", "mine").
			is(t, exitFine, "", "^there is no state")
		c.run("", "fleet").is(t, exitUsage, "", other)
	}

	// A file that somebody names is trusted.
	c.write("")
	c.run("", "call", "leave-mark", "--config", "runnel.yaml")
	if !c.marked() {
		t.Error("the tool leaves no mark: this test shows nothing")
	}
}

// Trust is for one place and one content: another one of either is not trusted.
func TestTrust(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	path := filepath.Join(c.dir, "runnel.yaml")
	c.run("", "trust").is(t, exitFine,
		`notify: .*\ntools:\n  leave-mark: \{command: \[touch, .*\]\}\nupstreams:\n  theirs: \{command: \[touch, .*\]\}\n`, "^trusted until it changes: "+path+"\n$")
	c.run("", "config", "check").is(t, exitFine, ".*", "")
	c.run("", "__complete", "call", "").is(t, exitFine, `leave-mark.*`, "Completion")
	if c.marked() {
		t.Error("a completion starts a server")
	}
	c.run("", "call", "leave-mark")
	if !c.marked() {
		t.Error("what is trusted does not run")
	}
	refused := func(why string, o outcome) {
		t.Helper()
		if o.code != exitFailure || !strings.Contains(o.stderr, why) ||
			!strings.Contains(o.stderr, "there is no tool") {
			t.Errorf("%s: %+v", why, o)
		}
	}

	// By a link to the folder it is the same place. In another folder it is another one, since its commands
	// run there.
	again := func() outcome { return c.run("", "call", "leave-mark") }
	link := c.dir + "-link"
	if err := os.Symlink(c.dir, link); err != nil {
		t.Fatal(err)
	}
	real := c.dir
	c.dir = link
	if o := again(); strings.Contains(o.stderr, "trust") {
		t.Errorf("by a link: %+v", o)
	}
	c.dir = t.TempDir()
	c.write("")
	refused("it is not trusted yet", again())
	if err := os.Remove(filepath.Join(c.dir, "runnel.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(c.dir, "runnel.yaml")); err != nil {
		t.Fatal(err)
	}
	refused("it is not trusted yet", again())
	c.dir = real

	c.write("# more\n")
	refused("it has changed since it was trusted", again())
	c.write("")
	if o := again(); strings.Contains(o.stderr, "trust") {
		t.Errorf("as it was: %+v", o)
	}

	c.run("", "trust", "--list").is(t, exitFine, path+`\n`, "")
	c.run("", "trust", "--remove").is(t, exitFine, "",
		`^no longer trusted: .*runnel\.yaml \(a server that has read it keeps its tools until it ends\)\n$`)
	c.run("", "trust", "--list").is(t, exitFine, "", `^no file is trusted\n$`)
	refused("it is not trusted yet", again())
	c.run("", "trust", "--remove").is(t, exitFailure, "", "is not trusted\n$")
	c.run("", "trust").is(t, exitFine, ".*", "trusted until")
	c.write("# more\n")
	c.run("", "trust", "--list").is(t, exitFine, path+`  \(changed or gone since\)\n`, "")

	// A pipe is not waited for.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfifo", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	refused("it is not a regular file", again())
	c.run("", "trust").is(t, exitFailure, "", "it is not a regular file")

	// Nobody else can read or write what is kept.
	state := ""
	for _, v := range c.env {
		if dir, ok := strings.CutPrefix(v, "XDG_STATE_HOME="); ok {
			state = filepath.Join(dir, "runnel", "trusted")
		}
	}
	files, err := os.ReadDir(state)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v: %v", files, err)
	}
	if info, err := files[0].Info(); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v: %v", info.Mode(), err)
	}
}

func TestTrustMisused(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	c.write("  wrong: {comand: [x]}\n")
	c.run("", "trust").is(t, exitUsage, "",
		`runnel.yaml:4:\d+: .*unknown key "comand"(?s:.*)\nit is not trusted: fix this, then run runnel trust again\n$`)
	c.run("", "trust", "other.yaml").
		is(t, exitUsage, "", `^other.yaml needs no trust: only a file named runnel.yaml is ever found without being named\n`)
	c.run("", "trust", "none/runnel.yaml").is(t, exitUsage, "", `^there is no none/runnel.yaml\n`)
	c.env = append(c.env, "HOME=", "XDG_STATE_HOME=")
	c.write("")
	c.run("", "trust").is(t, exitFailure, "",
		`neither XDG_STATE_HOME nor HOME is set to an absolute path: a named file \(--config\) needs no trust`)
	c.run("", "tools").is(t, exitFailure, "", `is not used: neither XDG_STATE_HOME nor HOME is set`)
}

// Trust counts only where nobody else can write it.
func TestTrustThatOthersMayWrite(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	state := t.TempDir()
	c.env = append(c.env, "XDG_STATE_HOME="+state)
	for _, args := range [][]string{{"trust"}, {"tools", "leave-mark"}} {
		if got := c.run("", args...); got.code != exitFine {
			t.Fatalf("%q: %+v", args, got)
		}
	}
	for _, dir := range []string{filepath.Join(state, "runnel"), filepath.Join(state, "runnel", "trusted")} {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		c.run("", "call", "leave-mark").
			is(t, exitFailure, "", "is not used: others may write "+regexp.QuoteMeta(dir)+
				", which says what is trusted: take their rights with chmod -R go-w ")
		c.run("", "trust").is(t, exitFailure, "", "others may write "+regexp.QuoteMeta(dir))
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if c.marked() {
		t.Error("it ran")
	}
	if os.Getuid() != 0 {
		return // only root can give a directory away
	}
	if err := os.Chown(filepath.Join(state, "runnel", "trusted"), 65534, -1); err != nil {
		t.Fatal(err)
	}
	c.run("", "call", "leave-mark").
		is(t, exitFailure, "", "is not used: .* belongs to another user: set XDG_STATE_HOME")
}

// The user's own config file is trusted also where it is the one in the current directory.
func TestOwnDirectoryIsTrusted(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	c.env = append(c.env, "XDG_CONFIG_HOME="+filepath.Dir(c.dir))
	own := filepath.Join(filepath.Dir(c.dir), "runnel")
	if err := os.Rename(c.dir, own); err != nil {
		t.Fatal(err)
	}
	c.dir = own
	c.run("", "call", "leave-mark")
	if !c.marked() {
		t.Error("the user's own config does not run")
	}
}

// A running server keeps what was trusted last when the file changes, and takes the new content once that is
// trusted.
func TestServerKeepsWhatWasTrusted(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	write := func(tool string) {
		if err := os.WriteFile(filepath.Join(c.dir, "runnel.yaml"),
			[]byte("tools: {"+tool+": {command: [echo]}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	c.run("", "trust").is(t, exitFine, ".*", "trusted until")
	s := process(t, c.command())
	s.open()
	says := func(text string) {
		t.Helper()
		for deadline := time.Now().Add(watchdog); !strings.Contains(s.stderr.String(),
			text); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("stderr does not say %q:\n%s", text, s.stderr)
			}
		}
	}
	id := 0
	lists := func(tool string) {
		t.Helper()
		id++
		s.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, id)
		line := string(s.line())
		for strings.Contains(line, "list_changed") {
			line = string(s.line())
		}
		if !strings.Contains(line, `"name":"`+tool+`"`) {
			t.Errorf("no tool %s: %s", tool, line)
		}
	}
	write("three")
	says("it has changed since it was trusted")
	says("the tools stay as they were")
	lists("one")
	// A change beside the file is not reported as a change of the file, again and again.
	if err := os.WriteFile(filepath.Join(c.dir, "neighbour"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const settle = 200 * time.Millisecond // from a change of the file to its being read again
	for deadline := time.Now().Add(3 * settle); time.Now().Before(deadline); time.Sleep(settle / 4) {
		if n := strings.Count(s.stderr.String(), "the tools stay as they were"); n != 1 {
			t.Fatalf("told %d times:\n%s", n, s.stderr)
		}
	}
	c.run("", "trust").is(t, exitFine, ".*", "trusted until")
	says("config read again")
	lists("three")
}

// A server that was started before its project's file was trusted, or written, takes it once it is trusted, and
// no longer tells models that it is not. The trust of another file changes nothing.
func TestServerTakesWhatIsTrustedLater(t *testing.T) {
	const mine = "tools: {mine: {command: [echo]}}\n"
	for name, try := range map[string]struct {
		own     string // the user's own config
		missing bool   // the project's file
	}{
		"not trusted": {}, "missing": {missing: true},
		"beside another": {own: mine}, "missing beside another": {mine, true}, "beside an empty one": {own: " "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCheckout(t)
			ran := filepath.Join(t.TempDir(), "ran")
			project := "  run: {command: [touch, " + ran + "]}\n"
			if c.write(project); try.missing {
				remove(t, filepath.Join(c.dir, "runnel.yaml"))
			}
			if try.own != "" {
				home := filepath.Join(t.TempDir(), "runnel")
				if err := os.Mkdir(home, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(home, "runnel.yaml"), []byte(strings.TrimSpace(try.own)),
					0o600); err != nil {
					t.Fatal(err)
				}
				c.env = append(c.env, "XDG_CONFIG_HOME="+filepath.Dir(home))
			}
			late := process(t, c.command("--state", "memory")) // its client comes when all is over
			w := startWitness(&witness{t: t, patience: watchdog, plain: true}, c.command("--state", "memory"))
			defer w.end()
			var list struct{ Tools []struct{ Name string } }
			has := func(name string) bool {
				w.must(&list, "tools/list", map[string]any{})
				return slices.ContainsFunc(list.Tools, func(t struct{ Name string }) bool { return t.Name == name })
			}
			if has("run") || has("mine") != (try.own == mine) {
				t.Fatalf("it begins with %+v", list.Tools)
			}
			other := newCheckout(t)
			other.env = c.env
			other.run("", "trust").is(t, exitFine, ".*", "trusted until")
			time.Sleep(time.Second) // longer than a change needs to be seen
			if has("run") || c.marked() || other.marked() {
				t.Fatal("the trust of another file counts")
			}
			if said := w.log.String(); strings.Contains(said, "config read again") ||
				strings.Contains(said, "the config is empty") {
				t.Errorf("nothing has changed, but it says: %s", said)
			}
			c.write(project)
			c.run("", "trust").is(t, exitFine, ".*", "trusted until")
			for deadline := time.Now().Add(watchdog); !has("run") || !strings.Contains(late.stderr.String(),
				"config read again"); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("it still has %+v", list.Tools)
				}
			}
			if has("mine") {
				t.Error("the user's own file counts beside the project's")
			}
			for range 2 {
				var result json.RawMessage
				w.must(&result, "tools/call", map[string]any{"name": "run", "arguments": map[string]any{}})
				remove(t, ran)
			}
			late.sendLine(initialize)
			if line := string(late.line()); strings.Contains(line, "missing") {
				t.Errorf("a client that comes later hears %s", line)
			}
		})
	}
}

// While there is no config file at all, a hangup ends a server. Otherwise it reads the file again, and says
// once more why it does not use it.
func TestHangupWithoutAConfig(t *testing.T) {
	t.Parallel()
	c := newCheckout(t)
	c.write("")
	s := process(t, c.command("--state", "memory"))
	s.open()
	says := func(times int, what string) {
		t.Helper()
		for deadline := time.Now().Add(watchdog); strings.Count(s.stderr.String(), what) <
			times; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("stderr does not say %q %d times:\n%s", what, times, s.stderr)
			}
		}
	}
	hangUp := func() {
		t.Helper()
		if err := syscall.Kill(s.pid, syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		hangUp()
		says(i+2, "it is not trusted yet")
	}
	remove(t, filepath.Join(c.dir, "runnel.yaml"))
	hangUp()
	select {
	case <-s.exited:
	case <-time.After(watchdog):
		t.Fatal("it goes on without any config")
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}
