package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// terminal is a real terminal, tmux, with a shell in it.
type terminal struct {
	t      *testing.T
	socket string
}

// newTerminal starts one. The program is there as the shell's command "runnel".
func newTerminal(t *testing.T) *terminal {
	t.Helper()
	dir := t.TempDir()
	term := &terminal{t, filepath.Join(dir, "socket")}
	env := append([]string{"env", "-i"},
		append(environ(t), noConfig, "TERM=tmux", "LC_ALL=C.UTF-8", "PS1=% ")...)
	term.tmux(append([]string{"-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30"},
		append(env, "sh", "-i")...)...)
	t.Cleanup(func() { _ = exec.Command("tmux", "-u", "-S", term.socket, "kill-server").Run() })
	term.keys("runnel() { "+builtProgram(t)+` "$@"; echo "exit code=$?"; }`, "Enter")
	return term
}

// run types a command on an empty screen.
func (term *terminal) run(command string) {
	term.t.Helper()
	term.keys("clear", "Enter")
	term.wait(`\A% *\n+\z`)
	term.keys(command, "Enter")
}

func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-u", "-S", term.socket}, args...)...).CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// keys presses keys.
func (term *terminal) keys(keys ...string) {
	term.t.Helper()
	term.tmux(append([]string{"send-keys"}, keys...)...)
}

// wait waits until the screen looks as said, and returns it.
func (term *terminal) wait(pattern string) string {
	term.t.Helper()
	looks := regexp.MustCompile(pattern)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.After(watchdog); ; {
		screen := term.tmux("capture-pane", "-p")
		if looks.MatchString(screen) {
			return screen
		}
		select {
		case <-again.C:
		case <-deadline:
			term.t.Fatalf("the screen never looks like %q:\n%s", pattern, screen)
		}
	}
}

// A person sees the output of a call, below it a line that shows progress, and in the end only the output.
func TestTerminal(t *testing.T) {
	t.Parallel()
	term := newTerminal(t)
	steps := t.TempDir() // a step ends when its file is there
	end := func(step string) {
		if err := os.WriteFile(filepath.Join(steps, step), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := writeConfig(t, `
tools:
  build:
    shell: 'for n in 1 2 3; do echo "[$n/3] step $n"; until [ -e `+steps+`/$n ]; do sleep 0.05; done; done'
    progress: '\[(\d+)/(\d+)\]'
  stubborn:
    shell: "trap '' TERM; echo begun; while :; do sleep 1; done"
    grace: 1m
  work:
    shell: "trap 'echo tidied up; exit 1' TERM; echo begun; while :; do sleep 0.1; done"
`)
	flags := strings.Join(config, " ")

	// A bar while the total is known; it leaves nothing behind.
	term.run("runnel call build " + flags)
	term.wait(`(?m)^\[1/3\] step 1\n(.*\n)?\[#+-+\]  33% \d+s`)
	end("1")
	term.wait(`(?m)^\[1/3\] step 1\n\[2/3\] step 2\n\[#+-+\]  67% \d+s`)
	end("2")
	end("3")
	screen := term.wait(`exit code=0`)
	if !regexp.MustCompile(`(?m)^\[1/3\] step 1\n\[2/3\] step 2\n\[3/3\] step 3\n(completed, [0-9.]+ s\n)?exit code=0\n`).MatchString(screen) {
		t.Errorf("the bar is left:\n%s", screen)
	}

	// A spinner with the time and the last line otherwise.
	term.run("runnel call sleep ms=60000 --selftest")
	term.wait(`(?m)^[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] 1s  sleep$`)
	term.keys("C-c")
	screen = term.wait(`exit code=130`)
	if strings.Contains(screen, "⠋") {
		t.Errorf("the spinner is left:\n%s", screen)
	}

	// Ctrl-C cancels, and the command ends as it wishes to.
	term.run("runnel call work " + flags)
	term.wait(`(?m)^begun\n. \d+s  begun`)
	term.keys("C-c")
	term.wait(`(?m)^begun\n(\^C\n?)?(.*\n)*exit code=130`)

	// A second one leaves.
	term.run("runnel call stubborn --no-task " + flags)
	term.wait(`(?m)^begun\n`)
	term.keys("C-c")
	term.wait(`cancelling; press Ctrl-C again`)
	term.keys("C-c")
	term.wait(`exit code=130`)

	// A question is put below the output, and the spinner gives way to it.
	term.run("runnel call ask message='what now?' delayMs=500 --selftest")
	term.wait(`(?m)^\? what now\?\n  answer \(empty: decline\): *$`)
	term.keys("onward", "Enter")
	term.wait(`(?m)^accepted: onward\nexit code=0`)

	// Where stderr is no terminal there is nothing but the output.
	term.run("runnel call build " + flags + " 2>&1 | cat -v")
	screen = term.wait(`exit code=0|step 3\n`)
	if strings.ContainsAny(screen, "#⠋") || strings.Contains(screen, "^[") {
		t.Errorf("something is drawn where nobody looks:\n%s", screen)
	}
}
