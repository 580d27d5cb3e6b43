package tools

import (
	"errors"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"runnel/partials"
	"runnel/tools/text"
)

const (
	// readSize is how much of a pipe is read at once: half of what one holds, so that the command goes on meanwhile.
	readSize = 32 << 10
	// widePipe is what the pipe of a command holds that prints faster than it is read. The two wait for each other less often: a command
	// that writes 4 KiB at a time has a third fewer switches between threads, and takes an eighth less time.
	widePipe = 256 << 10
	// lastKept is how much of the end of the output is kept for the status message, more than one can hold.
	lastKept = 4 << 10
)

// record takes what one run of a command prints: it streams it to the log as it comes and keeps
// of it what the result shows.
type record struct {
	config *CommandConfig
	out    *Output
	stdout textStream
	stderr textStream

	active  atomic.Int64 // when output was read or delivered last, in nanoseconds since began
	waiting atomic.Int32 // streams that wait for the client
	began   time.Time

	mu       sync.Mutex
	streamed Size   // bytes of text in the log
	last     []byte // the end of both streams, as they came
}

func newRecord(config *CommandConfig, marks *regexp.Regexp, out *Output) *record {
	r := &record{config: config, out: out, began: time.Now()}
	r.stdout.init(r, partials.Stdout, marks)
	r.stderr.init(r, partials.Stderr, marks)
	return r
}

// silence is how long the command has printed nothing. While runnel waits for a slow client, the command
// cannot print: that is no silence.
func (r *record) silence() time.Duration {
	if r.waiting.Load() > 0 {
		return 0
	}
	return time.Since(r.began) - time.Duration(r.active.Load())
}

func (r *record) touch() { r.active.Store(int64(time.Since(r.began))) }

// remember keeps the end of the output.
func (r *record) remember(text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = append(r.last, text[max(0, len(text)-lastKept):]...)
	if n := len(r.last) - lastKept; n > lastKept {
		r.last = r.last[:copy(r.last, r.last[n:])]
	}
}

// count counts text that goes to the log.
func (r *record) count(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streamed += Size(n)
}

// textStream is one of a command's two outputs. Its pump goroutine owns it until the pump has ended.
type textStream struct {
	r    *record
	sink partials.Stream

	bytes int64      // as read
	strip *stripper  // nil with "ansi: keep"
	rest  []byte     // the beginning of a character whose end has not been read yet
	whole []byte     // rest and a read
	lines lineBuffer // with "output: lines"
	marks *progressMarks
	kept  text.Shaper
	exact *wholeText // nil: it is not needed
	open  bool       // the last line has no newline
	gone  bool       // nobody takes output any more; it is read and counted all the same
}

func (s *textStream) init(r *record, sink partials.Stream, marks *regexp.Regexp) {
	s.r, s.sink = r, sink
	r.config.shape(&s.kept)
	if r.config.ANSI == "strip" {
		s.strip = &stripper{crlf: r.config.Pty}
	}
	if r.config.Structured == structuredJSON && sink == partials.Stdout {
		s.exact = &wholeText{}
	}
	if marks != nil {
		s.marks = newProgressMarks(marks, r.out.Progress)
	}
}

// pump reads f until its end, or until its deadline and then what is in it already.
func (s *textStream) pump(f *os.File) {
	buf := make([]byte, readSize)
	wide := false
	for {
		n, err := f.Read(buf)
		if n == len(buf) && !wide {
			widenPipe(f, widePipe)
			wide = true
		}
		s.take(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.collect(f, buf)
		}
		if err != nil { // of a terminal whose other end is closed: EIO
			break
		}
	}
	s.finish()
}

// collect reads what f holds without waiting for more. The command has ended: all it wrote is there, also
// when the deadline passed while the pump waited for a slow client.
func (s *textStream) collect(f *os.File, buf []byte) {
	_ = f.SetReadDeadline(time.Time{})
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	for total := 0; total < collectMax; {
		n := 0
		_ = raw.Read(func(fd uintptr) bool {
			for {
				n, err = syscall.Read(int(fd), buf)
				if !errors.Is(err, syscall.EINTR) {
					return true
				}
			}
		})
		if err != nil || n <= 0 {
			return
		}
		s.take(buf[:n])
		total += n
	}
}

// take turns bytes into text.
func (s *textStream) take(p []byte) {
	if len(p) == 0 {
		return
	}
	s.bytes += int64(len(p))
	s.r.touch()
	if s.strip != nil {
		p = s.strip.filter(p)
	}
	if len(s.rest) > 0 {
		s.whole = append(append(s.whole[:0], s.rest...), p...)
		p = s.whole
	}
	cut := unfinishedRune(p)
	s.rest = append(s.rest[:0], p[cut:]...)
	s.put(validText(p[:cut]))
}

// finish gives out what waited for more.
func (s *textStream) finish() {
	tail := append([]byte(nil), s.rest...)
	if s.strip != nil {
		tail = append(tail, s.strip.flush()...)
	}
	s.put(validText(tail))
	s.lines.flush(s.append)
}

// put takes valid text.
func (s *textStream) put(text []byte) {
	if len(text) == 0 {
		return
	}
	_, _ = s.kept.Write(text) // never fails
	if s.exact != nil {
		s.exact.add(text)
	}
	s.open = text[len(text)-1] != '\n'
	s.r.remember(text)
	if s.marks != nil {
		s.marks.scan(text)
	}
	s.r.count(len(text))
	s.send(text)
}

func (s *textStream) send(text []byte) {
	if s.r.config.Output == "lines" {
		s.lines.add(text, s.append)
	} else {
		s.append(text, nil)
	}
}

// append appends text, in lines where ends has where they end. It waits where the client is too far behind.
func (s *textStream) append(text []byte, ends []int) {
	if s.gone {
		return
	}
	s.r.waiting.Add(1)
	var err error
	if out := s.r.out; len(ends) > 0 {
		err = out.log.AppendLines(out.ctx, s.sink, text, ends)
	} else {
		err = out.log.Append(out.ctx, partials.Chunk{Stream: s.sink, Data: text, Whole: s.r.config.Output == "lines"})
	}
	s.r.waiting.Add(-1)
	s.r.touch()
	s.gone = err != nil
}

// validText returns p with each byte that is not UTF-8 as U+FFFD.
func validText(p []byte) []byte {
	if utf8.Valid(p) {
		return p
	}
	text := make([]byte, 0, len(p)+len(p)/2)
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		text = utf8.AppendRune(text, r)
		p = p[n:]
	}
	return text
}
