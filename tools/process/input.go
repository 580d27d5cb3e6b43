package process

import (
	"errors"
	"time"

	"github.com/creack/pty"
)

// The methods in this file give a child its input while it runs (Spec.Open). They may be called while Run
// runs, and fail once it has returned.

// endOfInput is the character that ends the input of a terminal (VEOF of termios(3)).
const endOfInput = 0x04

// Write writes to the child's stdin or terminal. It waits until the child, or the terminal's buffer, has
// taken all of it.
func (p *Child) Write(data []byte) (int, error) {
	p.output.active.Store(int64(time.Since(p.output.began))) // someone uses it
	switch {
	case !p.writes:
		return 0, errors.New("the program reads no input")
	case p.pty:
		return p.stdout.Write(data)
	default:
		return p.stdin.Write(data)
	}
}

// EndInput ends the input: it closes the pipe, or types Ctrl-D.
func (p *Child) EndInput() error {
	if p.pty {
		_, err := p.Write([]byte{endOfInput})
		return err
	}
	return p.stdin.Close()
}

// HidesInput reports whether the child's terminal does not show what is typed, as programs ask for passwords,
// and whether the program reads single keys: an editor or a shell then shows them by itself.
func (p *Child) HidesInput() (hides, keys bool) {
	if p.pty {
		return hidesInput(p.stdout)
	}
	return false, false
}

// Resize sets the size of the child's terminal.
func (p *Child) Resize(columns, rows int) error {
	if !p.pty {
		return nil
	}
	return pty.Setsize(p.stdout, &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)})
}
