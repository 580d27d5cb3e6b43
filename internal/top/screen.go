package top

import (
	"os"
	"strconv"
	"strings"
	"sync"

	xterm "golang.org/x/term"

	"runnel/internal/term"
)

// screen is the terminal while top uses it.
type screen struct {
	in, out *os.File
	colors  bool

	mu    sync.Mutex
	was   *xterm.State // its mode before enter; nil after leave
	shown string       // the last frame
}

const (
	// takeIt switches to the alternate screen, which keeps the lines of the shell; it hides the cursor, and
	// cuts lines that are too long.
	takeIt = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	giveIt = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// enter takes over the terminal.
func (s *screen) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, err := xterm.MakeRaw(int(s.in.Fd()))
	if err != nil {
		return err
	}
	if s.was == nil { // else another program, such as a shell, has changed the mode meanwhile
		s.was = was
	}
	s.shown = ""
	_, err = s.out.WriteString(takeIt)
	return err
}

// leave restores the terminal. It may be called at any time.
func (s *screen) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.was == nil {
		return
	}
	_, _ = s.out.WriteString(giveIt) // a terminal that is gone needs no restoring
	_ = xterm.Restore(int(s.in.Fd()), s.was)
	s.was = nil
}

// size is how many columns and lines there are.
func (s *screen) size() (width, height int) { return term.Size(s.out) }

// redraw makes paint write the next frame even if it has not changed.
func (s *screen) redraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = ""
}

// paint draws rows, from the top of the screen down.
func (s *screen) paint(rows []row) error {
	width, _ := s.size()
	var b strings.Builder
	for n, r := range rows {
		b.WriteString("\x1b[" + strconv.Itoa(n+1) + ";1H")
		left := width
		for _, p := range r {
			text := term.Clip(p.text, left)
			left -= term.Columns(text)
			if p.look == plain || p.look.isColor() && !s.colors {
				if b.WriteString(text); strings.Contains(text, "\x1b") {
					b.WriteString("\x1b[0m")
				}
				continue
			}
			b.WriteString("\x1b[" + string(p.look) + "m" + text + "\x1b[0m")
		}
		if left > 0 { // else the cursor is on the last character, which this would erase
			b.WriteString("\x1b[K")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if frame := b.String(); s.was != nil && frame != s.shown {
		s.shown = frame
		_, err := s.out.WriteString(frame)
		return err
	}
	return nil
}
