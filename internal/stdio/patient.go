package stdio

import (
	"io"
	"os"
	"sync"
	"time"
)

// logPatience is how long a log line waits for room in stderr: if somebody reads it, there is room at once.
const logPatience = 100 * time.Millisecond

// patient is the stderr of a server. Some hosts give it a pipe that they never read, which is full after a
// few hundred tasks: the next log line would block for ever. So lines without room are dropped, and their
// number is logged when there is room again. The pipe is not made non-blocking, since other processes may
// write to it.
type patient struct {
	to   outlet
	note func(lines int) // logs how many lines were dropped, in less than pipeRoom bytes

	mu     sync.Mutex
	left   int  // lines dropped since the last one written
	middle bool // the beginning of a dropped line has been written
}

// Patient returns the stderr of a command that serves a host: a patient one if it is a pipe or a socket, else
// stderr itself. note writes to direct how many lines were dropped, in less than 512 bytes.
func Patient(stderr io.Writer, note func(direct io.Writer, lines int)) io.Writer {
	f, ok := stderr.(*os.File)
	if !ok {
		return stderr
	}
	if _, ok := pipe(f); !ok {
		return f
	}
	to := newOutlet(f)
	return &patient{to: to, note: func(lines int) { note(to, lines) }}
}

// Write writes a line, or drops it.
func (p *patient) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for rest := line; len(rest) > 0; {
		patience := logPatience
		if p.left > 0 {
			patience = 0
		}
		switch {
		case !p.to.room(patience):
			p.left++
			p.middle = p.middle || len(rest) < len(line)
			return len(line), nil
		case p.middle:
			p.middle = false
			if _, err := p.to.Write([]byte("\n")); err != nil {
				return 0, err
			}
		case p.left > 0:
			p.note(p.left)
			p.left = 0
		default:
			n, err := p.to.Write(rest[:min(len(rest), pipeRoom)])
			if rest = rest[n:]; err != nil {
				return len(line) - len(rest), err
			}
		}
	}
	return len(line), nil
}
