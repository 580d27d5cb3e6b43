package term

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	// tick is how often the spinner moves.
	tick = 100 * time.Millisecond
	// showAfter keeps a short call from flashing.
	showAfter = 200 * time.Millisecond

	barWidth  = 24 // columns
	clearLine = "\r\x1b[K"
)

// View shows a call: content on stdout as it arrives and, at the bottom of stderr, a progress line: a bar if
// the total is known, else a spinner, with the time and the last line of output. Everything that is written
// to stdout or stderr goes through it, so that nothing is written into that line.
//
// Goroutines: one moves the spinner, if there is one.
type View struct {
	stdout, stderr io.Writer
	live           bool // the progress line is drawn
	person         bool // it was, until End
	plain          bool // progress is written as separate lines: --progress always, without a terminal
	shared         bool // stdout is a terminal, too: the progress line stands below its text
	out, err       *Output
	began          time.Time

	mu          sync.Mutex
	last        string // the last line of output, or the last message of the server
	done, total float64
	drawn       bool
	open        bool // stdout is in the middle of a line
	quiet       bool // the user is being asked

	stop func() // stops the spinner and waits for its end
}

// NewView makes the view of a call; End ends it. progress is auto, always or never.
func NewView(stdout, stderr io.Writer, progress string, getenv func(name string) string) *View {
	v := &View{stdout: stdout, stderr: stderr, began: time.Now(), stop: func() {},
		out: NewOutput(stdout, getenv), err: NewOutput(stderr, getenv)}
	terminal := IsTerminal(stderr) && getenv("TERM") != "dumb"
	v.live = terminal && progress != "never"
	v.person = v.live
	v.plain = !terminal && progress == "always"
	v.shared = IsTerminal(stdout)
	if v.live {
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() { defer close(stopped); v.spin(stop) }()
		v.stop = sync.OnceFunc(func() { close(stop); <-stopped })
	}
	return v
}

func (v *View) spin(stop <-chan struct{}) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		v.mu.Lock()
		if time.Since(v.began) >= showAfter {
			v.draw()
		}
		v.mu.Unlock()
	}
}

// Colors reports whether what is written to stdout is shown in colours.
func (v *View) Colors() bool { return v.out.Colors != "" }

// Drawn reports whether a person sees the progress of the call, until its End.
func (v *View) Drawn() bool { return v.person }

// End removes the progress line for good. The call and a second Ctrl-C may both call it, even at the same
// time.
func (v *View) End() {
	v.stop()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.toMargin()
	v.live = false
}

// Content writes text to stdout.
func (v *View) Content(text string) error {
	if text == "" {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
	_, err := io.WriteString(v.stdout, text)
	v.open = !strings.HasSuffix(text, "\n")
	v.note(text)
	return err
}

// NewLine ends an incomplete line, so that the next text begins at the margin.
func (v *View) NewLine() {
	v.mu.Lock()
	open := v.open
	v.mu.Unlock()
	if open {
		_ = v.Content("\n") // the next write returns the error, too
	}
}

// Output writes a task's output, as an Output shows it. A line about an item begins at the margin.
func (v *View) Output(text string, isText, stderr bool) error {
	if stderr {
		_, err := v.Write([]byte(v.err.Clean(text)))
		return err
	}
	if !isText {
		v.NewLine()
	}
	return v.Content(v.out.Clean(text))
}

// note remembers the last line that is not blank. mu is held.
func (v *View) note(text string) {
	text = strings.TrimRight(text, " \t\r\n")
	if cut := strings.LastIndexAny(text, "\r\n"); cut >= 0 {
		text = text[cut+1:]
	}
	if text != "" {
		v.last = text
	}
}

// Write writes whole lines to stderr, for a log.
func (v *View) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.toMargin()
	return v.stderr.Write(p)
}

// toMargin makes the next text on stderr begin at the margin. mu is held.
func (v *View) toMargin() {
	v.clear()
	if v.shared && v.open {
		_, _ = io.WriteString(v.stderr, "\n")
		v.open = false
	}
}

// Progress shows a progress notification; total 0 = unknown.
func (v *View) Progress(done, total float64, message string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.done, v.total = done, total; message != "" {
		v.note(message)
	}
	if v.plain && (total > 0 || message != "") {
		_, _ = fmt.Fprintln(v.stderr, strings.TrimSpace(v.bar()+" "+Plain(message)))
	}
}

// Say sets the text of the progress line, until output or another text comes.
func (v *View) Say(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.note(text)
}

// hush removes the progress line while the user is asked; back brings it back.
func (v *View) hush() (back func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
	v.quiet = true
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.quiet = false
	}
}

// clear removes the progress line. mu is held.
func (v *View) clear() {
	if v.drawn {
		_, _ = io.WriteString(v.stderr, clearLine)
		v.drawn = false
	}
}

// draw draws the progress line. mu is held.
func (v *View) draw() {
	if !v.live || v.quiet || v.shared && v.open {
		return
	}
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	line := string(frames[time.Since(v.began)/tick%time.Duration(len(frames))])
	if v.total > 0 {
		line = v.bar()
	}
	line += " " + time.Since(v.began).Truncate(time.Second).String()
	if v.last != "" {
		line += "  " + Plain(v.last)
	}
	width, _ := Size(v.stderr)
	_, _ = io.WriteString(v.stderr, clearLine+Clip(line, width-1))
	v.drawn = true
}

// bar draws the progress as a bar, "" if the total is unknown.
func (v *View) bar() string {
	if v.total <= 0 {
		return ""
	}
	part := min(max(v.done/v.total, 0), 1)
	full := int(part * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f%%", strings.Repeat("#", full),
		strings.Repeat("-", barWidth-full), part*100)
}
