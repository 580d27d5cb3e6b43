package e2e

import (
	"strings"
	"testing"
)

// A person attaches to the terminal of a task that a model types into: sees what was shown, types, has the
// size of their own terminal, leaves with Ctrl-P Ctrl-Q and comes back; the model sees what came of it. After
// the end of the program the person's terminal is as it was.
func TestAttach(t *testing.T) {
	t.Parallel()
	state := stateDir(t)
	config := writeConfig(t, `
tools:
  shell: {shell: 'echo ready; while read -r line; do echo "<$line>"; [ "$line" = size ] && stty size; [ "$line" = full ] && printf "\033[?1049h\033[Hwhole"; [ "$line" = bye ] && exit 3; done', interactive: true}
  silent: {shell: 'echo quiet; exec sleep 600'}
`)
	w := newWitness(t, programCommand(t, append(config, "--state", state)...))
	screen := newTerminal(t)
	attach := func(id string) { screen.run("runnel attach " + id + " --state " + state) }
	for range 2 {
		// What another program has shown on the alternate screen does not move the cursor later.
		screen.run(`printf '\033[H\033[2J\033[?1049h\033[?1049l'`)
		p := begin(w, "shell", nil)
		p.until("<one>", map[string]any{"text": "one\n"})
		attach(p.id[:8])
		screen.wait(`(?s)Ctrl-P Ctrl-Q leaves.*<one>`)
		screen.keys("two", "Enter")
		screen.wait(`<two>`)
		p.until("<two>", map[string]any{})
		screen.keys("size", "Enter")
		screen.wait(`30 100`)
		screen.keys("C-p", "C-q")
		screen.wait(`(?s)30 100\n.*exit code=0`)
		p.until("<three>", map[string]any{"text": "three\n"})
		attach(p.id[:8])
		screen.wait(`<three>`)
		screen.keys("full", "Enter")
		screen.wait(`(?m)^whole`)
		screen.keys("bye", "Enter")
		screen.wait(`(?s)<three>.*shell has ended: failed, exit code 3\n.*exit code=0`)
		p.until("exit code 3", map[string]any{})
		attach(p.id[:8])
		screen.wait(`has ended: runnel tasks result`)
	}
	for range 2 { // a call on a terminal does not pass on what is typed
		screen.run("runnel call shell --state " + state + " " + strings.Join(config, " "))
		screen.wait(`(?s)what you type here does not reach shell: type into it in another terminal with runnel attach\s.*ready`)
		screen.keys("C-c")
		screen.wait(`exit code=130`)
	}
	var started struct {
		Meta map[string]struct{ TaskID string } `json:"_meta"`
	}
	w.must(&started, "tools/call",
		map[string]any{"name": "start_task", "arguments": map[string]any{"tool": "silent"}})
	attach(started.Meta["runnel/task"].TaskID)
	screen.wait(`it reads no input: only a tool with`)
	if got := runClient(t, "", "attach", started.Meta["runnel/task"].TaskID, "--state",
		state); got.code != exitUsage ||
		!strings.Contains(got.stderr, "needs a terminal") {
		t.Errorf("without a terminal: %+v", got)
	}
	w.end()
}
