package process

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"runnel/internal/system"
)

const (
	// readSize is how much of a pipe is read at once: half of its size, so that the command can continue
	// meanwhile.
	readSize = 32 << 10
	// widePipe is the size to which a pipe is grown if the command prints faster than runnel reads. The two
	// then wait for each other less often: a command that writes 4 KiB at a time has a third fewer switches
	// between threads, and takes an eighth less time.
	widePipe = 256 << 10
	// collectDelay is how long output is still read when the command's group is gone, but a process that left
	// the group holds the pipe open. Everything in the pipe by then is read, too.
	collectDelay = 100 * time.Millisecond
	// collectMax bounds that reading if the process goes on writing: it is more than the command itself can
	// have left in a pipe (pipe-max-size of Linux).
	collectMax = 1 << 20
)

// output is the output of a child, which its pumps pass on.
type output struct {
	began   time.Time    // when the pumps were started
	active  atomic.Int64 // when output was last read or taken, in nanoseconds since began
	writing atomic.Int32 // pumps that wait for their writer
}

// pump passes everything from f to w until the end of f. At the deadline it passes only what is in f already.
func (o *output) pump(f *os.File, w io.Writer) {
	buf := make([]byte, readSize)
	wide := false
	for {
		n, err := f.Read(buf)
		if n == len(buf) && !wide {
			system.Widen(f, widePipe)
			wide = true
		}
		o.pass(buf[:n], w)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			o.collect(f, buf, w)
		}
		if err != nil { // EIO, where the other end of a terminal is closed
			break
		}
	}
}

// collect reads what is in f without waiting for more. The command has ended, so all its output is there,
// even if the deadline has passed while the pump waited for a slow client.
func (o *output) collect(f *os.File, buf []byte, w io.Writer) {
	for total := 0; total < collectMax && system.Readable(f); {
		_ = f.SetReadDeadline(time.Now().Add(collectDelay)) // another reader may be faster
		n, err := f.Read(buf)
		o.pass(buf[:n], w)
		total += n
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

func (o *output) pass(b []byte, w io.Writer) {
	if len(b) == 0 {
		return
	}
	o.writing.Add(1)
	_, _ = w.Write(b)
	o.active.Store(int64(time.Since(o.began)))
	o.writing.Add(-1)
}

// silence returns how long the child has printed nothing. Time in which a writer waits for a slow client does
// not count, since the child cannot print then.
func (o *output) silence() time.Duration {
	if o.writing.Load() > 0 {
		return 0
	}
	return time.Since(o.began) - time.Duration(o.active.Load())
}
