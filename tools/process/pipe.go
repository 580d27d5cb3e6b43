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
	// readSize is how much of a pipe is read at once: half of what one holds, so that the command goes on meanwhile.
	readSize = 32 << 10
	// widePipe is what the pipe of a command holds that prints faster than it is read. The two wait for each other less often: a command
	// that writes 4 KiB at a time has a third fewer switches between threads, and takes an eighth less time.
	widePipe = 256 << 10
	// collectDelay is how long output is read on once the command's group is gone and someone else, who left
	// the group, holds the pipe still. What is in the pipe by then is read too.
	collectDelay = 100 * time.Millisecond
	// collectMax bounds what is read then, if that someone goes on writing: more than the
	// command itself can have left in a pipe (pipe-max-size of Linux).
	collectMax = 1 << 20
)

// output is what a child prints: its pumps pass it on.
type output struct {
	began   time.Time    // when the pumps were started
	active  atomic.Int64 // when output was read or taken last, in nanoseconds since began
	writing atomic.Int32 // pumps whose writer takes what they have read
}

// pump passes what f holds to w until the end of f, or until its deadline and then what is in it already.
func (o *output) pump(f *os.File, w io.Writer) {
	buf := make([]byte, readSize)
	wide := false
	for {
		n, err := f.Read(buf)
		if n == len(buf) && !wide {
			widenPipe(f, widePipe)
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

// collect reads what f holds without waiting for more. The command has ended: all it wrote is there, also
// when the deadline passed while the pump waited for a slow client.
func (o *output) collect(f *os.File, buf []byte, w io.Writer) {
	for total := 0; total < collectMax && system.Readable(f); {
		_ = f.SetReadDeadline(time.Now().Add(collectDelay)) // somebody else may be faster
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

// silence is how long the child has printed nothing. While a writer waits for a slow client, the child
// cannot print: that is not silence.
func (o *output) silence() time.Duration {
	if o.writing.Load() > 0 {
		return 0
	}
	return time.Since(o.began) - time.Duration(o.active.Load())
}
