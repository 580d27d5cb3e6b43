package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// A person watches tasks that other processes run, follows and searches an output, cancels, stops and goes
// on, on a small screen, too.
func TestTop(t *testing.T) {
	t.Parallel()
	screen := newTerminal(t)
	dir := t.TempDir()
	flags := append(writeConfig(t, `
tools:
  build: {shell: 'n=0; while n=$((n+1)); do echo "[$n/400] step $n of the build"; sleep 0.2; done'}
  hostile: {shell: 'printf "\033]0;owned\007\033[2J\033[31mred\033[0m\n"; exec sleep 1000', ansi: keep}
  quick: {shell: 'echo hello; exit 3', input: {n: {type: integer, default: 7}}}
`), "--state", filepath.Join(dir, "state"))
	for _, tool := range []string{"quick", "hostile", "build"} { // the newest stands first
		args := append([]string{"call", tool, "--task"}, flags...)
		if tool == "quick" {
			args = append(args, "n=7")
		}
		call := exec.Command(builtProgram(t), args...)
		call.Env = append(environ(t), noConfig)
		if err := call.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = call.Process.Signal(syscall.SIGTERM); _ = call.Wait() })
		for deadline := time.Now().Add(watchdog); ; {
			list := exec.Command(builtProgram(t), append([]string{"tasks", "list"}, flags...)...)
			list.Env = call.Env
			if said, _ := list.Output(); strings.Contains(string(said), tool) {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("%s does not begin:\n%s", tool, said)
			}
		}
	}
	top := "runnel top " + strings.Join(flags, " ")
	screen.run("stty -g > " + dir + "/before; echo noted")
	screen.wait(`(?m)^noted`)

	screen.run(top)
	screen.wait(`(?m)\Arunnel top  2 running, 1 ended .*\n  ID .*\n> \w{8} working +build .*\n  \w{8} working +hostile .*\n\n  ID .*\n. \w{8} failed +quick .* exit code 3`)
	screen.wait(`(?m)^. \w{8} working +hostile .*[0-9]s +red$`)
	screen.wait(`(?m)^. \w{8} working +build +\S+ +\d+%  +\[\d+/400\] step`)
	if shown := screen.tmux("capture-pane", "-p", "-e"); !strings.Contains(shown, "\x1b[31mfailed") {
		t.Errorf("there are no colours:\n%q", shown)
	}

	// What ended is run again, here, with its arguments; the table is filtered and shows all of it on a wide screen.
	screen.tmux("resize-window", "-x", "160", "-y", "30")
	for n := range 2 {
		screen.keys("!")
		screen.wait(`(?m)\Arunnel top  2 running, \d ended  \d shown: failed .*\n  ID +STATUS +TOOL +HOST +AGE +TOOK +DONE +ARGUMENTS +LAST LINE\n\n(.*\n)+. \w{8} failed +quick .* n=7 `)
		screen.keys("g", "r")
		screen.wait(`(?m)^run quick n=7 again\? y/n`)
		screen.keys("y")
		screen.wait(`(?m)\Aquick \w{8}  failed .*exit code 3\nhello\n(.*\n)*end  q back`)
		screen.keys("q", "Escape")
		screen.wait(`(?m)\Arunnel top  2 running, ` + strconv.Itoa(n+2) + ` ended  /`)
	}
	screen.keys("/")
	screen.keys("-l", "red")
	screen.keys("Enter")
	screen.wait(`(?m)\Arunnel top  2 running, 3 ended  1 shown: /red `)
	screen.keys("Escape", "g")

	// 40 columns.
	screen.tmux("resize-window", "-x", "40", "-y", "12")
	screen.wait(`(?m)^. \w{8} working +build .*%\s*$(\n.*)+\nq quit  Enter follow  c cancel  \? help\n\z`)
	if screen.keys("?"); !strings.Contains(screen.wait(`(?m)^any key goes back`), "In the table") {
		t.Error("no help")
	}
	screen.keys("q")

	// The output of a task, from whichever line it is in.
	screen.keys("Down", "Down", "Home")
	screen.wait(`(?m)^> \w{8} working +build`)
	screen.keys("Enter")
	// More than fit.
	screen.wait(`(?m)\Abuild \w{8}  working .*(\n.*)+\n\[1\d+/400\] step 1\d+ of the build\nfollowing  q back`)
	screen.keys("g")
	screen.wait(`(?m)^1/\d+  q back`)
	screen.keys("/")
	screen.keys("-l", "STEP 3")
	screen.keys("Enter")
	screen.wait(`(?m)^not found: STEP 3`) // large letters are meant
	screen.keys("/")
	screen.keys("-l", "step 3")
	screen.keys("Enter")
	screen.wait(`(?m)\Abuild .*\n\[3/400\] step 3 of the build\n(.*\n)+\d+/\d+  q back`)
	screen.keys("f")
	screen.wait(`(?m)^following  q back`)
	screen.keys("k")
	screen.wait(`(?m)^\d+/\d+  q back`)
	screen.keys("Escape")

	// It is cancelled, by the process that runs it, when that is confirmed.
	screen.wait(`(?m)^runnel top`)
	screen.keys("c")
	screen.wait(`(?m)^cancel \w{8}\? y/n`)
	screen.keys("n")
	screen.wait(`(?m)^q quit`)
	screen.keys("c", "y")
	screen.wait(`(?m)^\w{8} cancelled`)
	screen.wait(`(?m)^> \w{8} cancelled build`)

	// Stopped, the terminal is the shell's; then it goes on.
	screen.keys("C-z")
	screen.wait(`(?m)^exit code=148`)
	screen.keys("stty -g | diff - "+dir+"/before && echo as it was; fg", "Enter")
	screen.wait(`(?m)\Arunnel top  1 running`)
	screen.keys("q")
	screen.wait(`(?m)^as it was\n(.*\n)*%`)

	// Ended by a signal, it leaves the terminal as it was, too.
	screen.tmux("resize-window", "-x", "100", "-y", "30")
	screen.run("sh -c 'echo $$ > " + dir + "/pid; NO_COLOR=1 exec " + builtProgram(t) +
		strings.TrimPrefix(top, "runnel") + "'; echo ended=$?; stty -g | diff - " + dir +
		"/before && echo as it was")
	screen.wait(`(?m)^. \w{8} failed +quick`)
	if shown := screen.tmux("capture-pane", "-p", "-e"); strings.Contains(shown, "\x1b[31m") {
		t.Errorf("there are colours in spite of NO_COLOR:\n%q", shown)
	}
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(pid)))
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(n, syscall.SIGTERM)
	screen.wait(`(?m)^ended=143\n(.*\n)*as it was`)

	// Before the first task there is an empty table, not an error.
	empty := " --state " + filepath.Join(dir, "empty")
	for _, watch := range []string{"top", "tasks list --watch"} {
		screen.run("runnel " + watch + empty)
		screen.wait(`(?m)^ *no tasks`)
		call := exec.Command(builtProgram(t), "call", "first", "--task", "--tool", "first=true", "--state",
			filepath.Join(dir, "empty"))
		call.Env = append(environ(t), noConfig)
		if out, err := call.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		screen.wait(`completed +first `)
		if watch == "top" {
			screen.keys("q")
			screen.wait(`(?m)^exit code=0`)
		} else {
			screen.keys("C-c")
			screen.wait(`(?m)^(\^C)?exit code=130`)
		}
		if err := os.RemoveAll(filepath.Join(dir, "empty")); err != nil {
			t.Fatal(err)
		}
	}

	// Where nobody looks, it says what to use.
	screen.run(top + " | cat")
	screen.wait(`runnel tasks list prints the tasks`)
}

// A person answers what tasks ask, where it is a yes or no, and is shown the command for a form.
func TestTopAnswers(t *testing.T) {
	t.Parallel()
	screen := newTerminal(t)
	flags := append(writeConfig(t, `
tools:
  release: {steps: [{id: ok, ask: 'Publish it?'}]}
`), "--selftest", "--state", filepath.Join(t.TempDir(), "state"))
	w := startWitness(&witness{t: t, patience: watchdog, asked: true}, programCommand(t, flags...)) // its user does not answer
	start := func(tool string, arguments map[string]any) (id string) {
		t.Helper()
		var made mcp.CreateTaskResult
		w.must(&made, "tools/call", map[string]any{"name": tool, "arguments": arguments, "task": map[string]any{}})
		statusBecomes(t, w, made.Task.TaskID, mcp.TaskInputRequired)
		return made.Task.TaskID[:8]
	}
	screen.run("runnel top " + strings.Join(flags, " "))
	for key, want := range map[string]string{"y": "yes", "n": "no"} {
		id := start("release", nil)
		screen.wait(`(?m)^. ` + id + ` asks +release `)
		screen.keys("g")
		screen.wait(`(?m)^> ` + id + ` asks +release `)
		screen.keys("a")
		screen.wait(`(?m)^` + id + ` asks: Publish it\? y/n`)
		screen.keys(key)
		screen.wait(`(?m)^` + id + ` answered: ` + want)
		screen.wait(`(?m)^. ` + id + ` completed `)
		screen.keys("a")
		screen.wait(`(?m)^task ` + id + `.* has ended`)
	}
	id := start("ask", map[string]any{"message": "Which colour?"})
	screen.wait(`(?m)^. ` + id + ` asks +ask `)
	screen.keys("g")
	screen.wait(`(?m)^> ` + id + ` asks +ask `)
	screen.keys("a")
	screen.wait(`(?m)^answer it with runnel tasks answer ` + id + `: Which colour\?`)
	screen.keys("q")
	w.end()
}
