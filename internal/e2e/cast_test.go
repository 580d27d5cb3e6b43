package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	screens "runnel/tools/terminal"
	"runnel/tools/text"
)

// recording is what runnel tasks cast writes.
type recording struct {
	Version, Width, Height int
	Timestamp              int64
	Title                  string

	shown string   // all that the terminal was sent
	sizes []string // that it got
	last  float64  // the time of the last event
	file  string
}

// cast records a task, and checks that times rise.
func cast(t *testing.T, id, state string) (r recording) {
	t.Helper()
	got := runClient(t, "", "tasks", "cast", id, "--state", state)
	header, events, _ := strings.Cut(got.stdout, "\n")
	if err := json.Unmarshal([]byte(header), &r); got.code != 0 || err != nil {
		t.Fatalf("%+v: %v", got, err)
	}
	for line := range strings.Lines(events) {
		var at float64
		var kind, data string
		if err := json.Unmarshal([]byte(line), &[]any{&at, &kind, &data}); err != nil || at < r.last {
			t.Fatalf("%q after %v s: %v", line, r.last, err)
		}
		switch r.last = at; kind {
		case "o":
			r.shown += data
		case "r":
			r.sizes = append(r.sizes, data)
		default:
			t.Errorf("an event %q", line)
		}
	}
	r.file = filepath.Join(t.TempDir(), "task.cast")
	if err := os.WriteFile(r.file, []byte(got.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// The recording of a terminal, replayed, has the screen of its task, its size and how that changed, while the
// task runs and after its end.
func TestCast(t *testing.T) {
	t.Parallel()
	state := stateDir(t)
	w := newWitness(t, programCommand(t, append(writeConfig(t, `
tools:
  draw:
    shell: 'printf "\033[2J\033[5;7Hbegun <é>\n\033[31mred\033[0m\r\n"; while read -r line; do printf "\033[8;3H%s\033[K\033[10;1H" "$line"; done'
    interactive: true
    size: 100x20
`), "--state", state)...))
	screen := newTerminal(t)
	replay := func(r recording) string {
		s := screens.NewScreen(r.Width, r.Height, nil)
		for _, size := range r.sizes {
			var columns, rows int
			if _, err := fmt.Sscanf(size, "%dx%d", &columns, &rows); err != nil {
				t.Error(err)
			}
			s.Write(screens.Resized(columns, rows), 1<<10)
		}
		var log text.Encoder
		s.Write(log.Encode([]byte(r.shown)), 1<<10)
		shown, row, column := s.Text()
		columns, rows := s.Size()
		return fmt.Sprintf("%s\n[cursor in row %d, column %d, of %dx%d]", shown, row, column, columns, rows)
	}
	for range 2 {
		p := begin(w, "draw", nil)
		p.until("one", map[string]any{"text": "one\n"})
		r := cast(t, p.id[:8], state)
		if r.Version != 2 || r.Width != 100 || r.Height != 20 || r.Title != "draw" || r.Timestamp == 0 ||
			r.sizes != nil {
			t.Errorf("%+v", r)
		}
		shown := firstTextOf(p.send(map[string]any{"screen": true, "wait_ms": 100}))
		if got := replay(r); got != shown || !strings.Contains(got, "begun <é>") {
			t.Errorf("replayed: %s\nthe screen: %s", got, shown)
		}
		screen.run("runnel attach " + p.id + " --state " + state)
		screen.wait(`begun`)
		screen.keys("two", "Enter")
		screen.wait(`(?m)^  two`)
		screen.keys("C-p", "C-q")
		screen.wait(`exit code=0`)
		r = cast(t, p.id, state)
		if len(r.sizes) != 1 || r.sizes[0] != "100x30" {
			t.Errorf("sizes %q", r.sizes)
		}
		shown = firstTextOf(p.send(map[string]any{"screen": true, "wait_ms": 100}))
		if got := replay(r); got != shown {
			t.Errorf("replayed: %s\nthe screen: %s", got, shown)
		}
		p.until("[completed, exit code 0, ", map[string]any{"eof": true})
		r = cast(t, p.id, state)
		if !strings.Contains(r.shown, "two") {
			t.Errorf("after the end: %q", r.shown)
		}
		t.Run("asciinema", func(t *testing.T) { readByAsciinema(t, r) })
	}
	w.end()
}

// readByAsciinema lets asciinema read a recording.
func readByAsciinema(t *testing.T, r recording) {
	if _, err := exec.LookPath("asciinema"); err != nil {
		t.Skip("asciinema is not installed")
	}
	read := exec.Command("asciinema", "cat", r.file)
	read.Env = append(environ(t), "HOME="+t.TempDir(), "LC_ALL=C.UTF-8")
	var got bytes.Buffer
	read.Stdout, read.Stderr = &got, &got
	tty, err := pty.Start(read) // it opens /dev/tty
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tty.Close() }()
	if err := read.Wait(); err != nil || got.String() != r.shown {
		t.Errorf("asciinema reads %q, %v, want %q", got.String(), err, r.shown)
	}
}

// A task without a terminal is recorded as its lines, when they came.
func TestCastOfLines(t *testing.T) {
	t.Parallel()
	state := stateDir(t)
	for range 2 {
		called := runClient(t, "", "call", "build", "--task", "--state", state, "--tool",
			`build=sh -c "echo first; sleep 2; echo second; echo third >&2"`)
		ids := strings.Fields(runClient(t, "", "tasks", "list", "-q", "--state", state).stdout)
		r := cast(t, ids[len(ids)-1], state)
		if called.code != 0 || r.Width != 120 || r.Height != 40 || r.shown != "first\r\nsecond\r\nthird\r\n" ||
			r.last < 1.9 {
			t.Errorf("%+v, %+v", called, r)
		}
		t.Run("asciinema", func(t *testing.T) { readByAsciinema(t, r) })
	}
	silent := runClient(t, "", "call", "silent", "--task", "--state", state, "--tool", "silent=true")
	ids := strings.Fields(runClient(t, "", "tasks", "list", "-q", "--state", state).stdout)
	if r := cast(t, ids[len(ids)-1], state); silent.code != 0 || r.Version != 2 || r.shown != "" {
		t.Errorf("of a silent task: %+v", r)
	}
}
