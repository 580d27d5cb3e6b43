package hosts

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

var record = flag.String("record", "", "`directory` for the sessions of the README's picture")

const (
	recordColumns, recordRows = "58", "22"

	ready     = `\? for shortcuts`
	frame     = 500 * time.Millisecond // between two looks at the screen
	keystroke = 60 * time.Millisecond
)

// building takes longer than Claude Code waits before a call goes on in the background.
const building = "build:\n\t@for n in $$(seq 30); do echo \"[$$n/30] compiling package $$n\"; sleep 1; done; echo built\n"

// TestRecord records the sessions of the README's picture: the same build in Claude Code, by its own Bash and by
// runnel with default flags. Claude Code is killed in the middle of it, and continued. A session becomes a file of
// lines, each with the seconds since it began and the screen.
func TestRecord(t *testing.T) {
	if *record == "" {
		t.Skip("make cast")
	}
	program := install(t, Hosts[0])
	for _, name := range []string{"without", "with"} {
		t.Run(name, func(t *testing.T) { recordBuild(t, name, program) })
	}
}

func recordBuild(t *testing.T, name, program string) {
	dir, err := os.MkdirTemp("", "terminal") // short: tmux has a socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.MkdirAll(*record, 0o755); err != nil {
		t.Fatal(err)
	}
	start := Start{Home: filepath.Join(dir, "home"), Project: filepath.Join(dir, "home/project")}
	start.write("project/Makefile", building)
	config := start.write("project/runnel.yaml",
		"tools: {build: {description: Builds the project, command: [make, build]}}")
	if err := os.MkdirAll(filepath.Join(start.Home, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	binary, err := filepath.Abs(*runnel)
	if err != nil {
		t.Fatal(err)
	}
	start.Server = []string{binary, "--config", config, "--state", filepath.Join(dir, "state")}

	build := Call{Tool: "build"}
	if name == "without" {
		build = Call{"Bash", object{"command": "make build", "description": "Build the project"}}
	}
	_, trace := traces(t, Hosts[0], Scenario{Name: "record-" + name})
	run := &Run{T: t, Host: Hosts[0], Dir: dir}
	run.Model, err = Serve(func(results []Result) []Call {
		if len(results) > 0 && !strings.Contains(results[len(results)-1].Text, "nterrupted") {
			return nil
		}
		return []Call{build}
	}, trace)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Model.Close()
	run.Model.Last = func(notes []string) string {
		text := strings.Join(notes, "\n")
		if lines := strings.Count(text, "compiling package"); lines > 0 {
			return fmt.Sprintf("The build has ended well. I have read all %d lines.", lines)
		}
		return "The build goes on in the background."
	}
	start.URL = run.Model.URL
	_, env := claudeCode(start)
	start.settled()
	start.write(".claude/settings.json", encode(object{"spinnerTipsEnabled": false, "permissions": object{
		"defaultMode": "default", "disableAutoMode": "disable",
		"allow": []string{"mcp__runnel", "Bash(make build)"}}}))

	bin := filepath.Join(start.Home, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(bin, "claude")); err != nil {
		t.Fatal(err)
	}
	own := slices.DeleteFunc(start.environment(bin+":"+os.Getenv("PATH")), func(v string) bool {
		return strings.HasPrefix(v, "CI=") || strings.HasPrefix(v, "NO_COLOR=")
	})
	s := &seat{Run: run, terminal: newTerminal(t, start,
		append(append(own, env...), "TERM=xterm-256color", "PS1=\\[\\e[J\\]$ "))}
	defer sweep(run, start.Home, binary)
	if out, err := s.tmux("new-session", "-d", "-s", "host", "-x", recordColumns, "-y", recordRows, "--",
		"bash", "--norc",
		";", "set", "-g", "focus-events", "on"); err != nil {
		t.Fatalf("tmux: %v\n%s", err, out)
	}
	defer s.kill()
	s.waits(`\$`)
	defer s.film(filepath.Join(*record, name+".cast"))()

	s.types("claude")
	s.waits(ready)
	s.types("Build the project.")
	if name == "with" {
		s.waits("in the background")
		time.Sleep(2 * time.Second) // to be read
	} else {
		s.waits(`\b2[0-2]s`)
	}
	for pid, command := range left(start.Home) {
		if strings.HasPrefix(command, "claude") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	s.waits("Killed")
	time.Sleep(time.Second) // to be read
	s.types("claude --continue")
	s.waits(ready)
	if name == "with" {
		s.waits("all 30 lines")
	} else {
		s.types("Go on.")
		s.waits(`5 lines`)
	}
	time.Sleep(10 * time.Second) // the same
}

// types types a line as a person does.
func (s *seat) types(line string) {
	s.Helper()
	for _, letter := range strings.Split(line, "") {
		s.keys("-l", letter)
		time.Sleep(keystroke)
	}
	s.keys("Enter")
}

// film writes what is on the screen, when, until stop is called.
func (s *seat) film(file string) (stop func()) {
	s.Helper()
	f, err := os.Create(file)
	if err != nil {
		s.Fatal(err)
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		began, last := time.Now(), ""
		w := bufio.NewWriter(f)
		for {
			screen, err := s.tmux("capture-pane", "-p", "-e", "-t", "host")
			if err == nil && screen != last {
				fmt.Fprintln(w, encode([]any{time.Since(began).Seconds(), screen}))
				last = screen
			}
			select {
			case <-done:
				_ = w.Flush()
				return
			case <-time.After(frame):
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		if err := f.Close(); err != nil {
			s.Error(err)
		}
	}
}
