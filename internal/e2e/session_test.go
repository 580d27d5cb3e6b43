package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"runnel/internal/cli"
)

const (
	// watchdog is how long a test waits for what must come from a real process: generous, because a test
	// machine may be busy.
	watchdog = 2 * time.Minute

	// virtualWatchdog is the same in process, where time is virtual (testing/synctest).
	virtualWatchdog = 30 * time.Second

	// quiet is how long nothing may come from a real process until that counts as silence.
	// In process silence is exact: every goroutine is blocked.
	quiet = 100 * time.Millisecond
)

// session is one run of the program with a client at its stdin and stdout: in process or as a real process.
//
// Goroutines: one reads stdout, as fast as it can unless the session is stalled.
type session struct {
	t     testing.TB
	audit *audit

	in     io.WriteCloser
	exited chan struct{} // closed when code is set
	code   int
	how    string // of a process: its exit code or signal in words
	stderr *syncBuffer
	pid    int    // 0 in process
	config string // file, of a process that has one

	streams bool // lines come in streams, which are in order each

	mu   sync.Mutex
	gate chan struct{} // closed while the client reads
	// The client has stopped reading once: when a line came says nothing of when it was written.
	late  bool
	lines []arrival     // read and not taken
	end   error         // why no more lines come
	more  chan struct{} // capacity 1: lines or end changed
}

// noConfig keeps a ./runnel.yaml that somebody tries out here from the tests.
const noConfig = "RUNNEL_CONFIG=" + os.DevNull

// environ is what the program sees of an environment: nothing of the machine's own configuration.
func environ(t testing.TB) []string {
	return []string{
		"PATH=" + searchPath, "HOME=" + t.TempDir(), "TERM=dumb",
		"XDG_CONFIG_HOME=" + t.TempDir(), "XDG_STATE_HOME=" + t.TempDir(),
		"RUNNEL_STATE=memory", // tests of a durable state name a directory
		childMark,
	}
}

// inProcess runs the program in goroutines of the test, over pipes without a buffer.
func inProcess(t testing.TB, args ...string) *session {
	ctx, cancel := context.WithCancel(context.Background())
	inReader, in := io.Pipe()
	out, outWriter := io.Pipe()
	s := newSession(t, in, out)
	env := append(environ(t), noConfig)
	go func() {
		defer close(s.exited)
		s.code = cli.Run(ctx, args, env, inReader, outWriter, s.stderr)
		_ = inReader.Close()
		_ = outWriter.Close()
	}()
	t.Cleanup(func() {
		cancel()
		_ = in.Close()
		_ = out.CloseWithError(errors.New("test is over"))
		s.resume()
		<-s.exited
	})
	return s
}

// pipes are what a process that is not started yet will read and write.
func pipes(t testing.TB, cmd *exec.Cmd) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err = cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return in, out
}

// process runs a real process: the program itself or, with racedCommand, with the race detector.
func process(t testing.TB, cmd *exec.Cmd) *session {
	t.Helper()
	in, out := pipes(t, cmd)
	cmd.WaitDelay = watchdog
	s := newSession(t, in, nil)
	cmd.Stderr = s.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	if i := slices.Index(cmd.Args, "--config"); i >= 0 {
		s.config = cmd.Args[i+1]
	}
	read := make(chan struct{})
	go func() { s.read(out); close(read) }()
	go func() {
		defer close(s.exited)
		<-read // Wait closes the pipe
		_ = cmd.Wait()
		s.code, s.how = cmd.ProcessState.ExitCode(), cmd.ProcessState.String()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = in.Close()
		s.resume()
		<-s.exited
	})
	return s
}

func newSession(t testing.TB, in io.WriteCloser, out io.Reader) *session {
	s := &session{t: t, audit: newAudit(t), in: in, exited: make(chan struct{}), stderr: &syncBuffer{},
		gate: make(chan struct{}), more: make(chan struct{}, 1)}
	close(s.gate)
	if out != nil {
		go s.read(out)
	}
	return s
}

func (s *session) read(out io.Reader) {
	lines := bufio.NewReader(readerFunc(func(p []byte) (int, error) {
		s.mu.Lock()
		gate := s.gate
		s.mu.Unlock()
		<-gate
		return out.Read(p)
	}))
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if len(line) > 0 {
				err = fmt.Errorf("stdout ends in the middle of a line: %q", line)
			}
			s.deliver(nil, err)
			return
		}
		s.deliver(line[:len(line)-1], nil)
	}
}

// arrival is a line and when it came: in virtual time that is when it was written, else zero.
type arrival struct {
	line      []byte
	at        time.Time
	stream    int       // 0 on stdout
	overtaken []arrival // what came in the stream before and may be overtaken
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func (s *session) deliver(line []byte, end error) { s.deliverAs(arrival{line: line}, end) }

func (s *session) deliverIn(stream int, line []byte) {
	s.deliverAs(arrival{line: line, stream: stream}, nil)
}

func (s *session) deliverAs(a arrival, end error) {
	s.mu.Lock()
	if a.line != nil {
		if s.pid == 0 && !s.late {
			a.at = time.Now()
		}
		s.lines = append(s.lines, a)
	}
	if end != nil {
		s.end = end
	}
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// stall stops the client's reading. A read that is under way may still take what fits its buffer.
func (s *session) stall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = make(chan struct{})
	s.late = true
}

func (s *session) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.gate:
	default:
		close(s.gate)
	}
}

// send writes bytes as they are. A server that does not read them in time is an error:
// the reader of stdin never blocks.
func (s *session) send(b []byte) error {
	s.audit.sent(b)
	done := make(chan error, 1)
	go func() {
		_, err := s.in.Write(b)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(s.patience()):
		return errors.New("the server does not read its stdin")
	}
}

func (s *session) sendLine(format string, args ...any) {
	s.t.Helper()
	if err := s.send(fmt.Appendf(nil, format+"\n", args...)); err != nil {
		s.t.Fatal(err)
	}
}

var errNothing = errors.New("nothing came")

// next returns the next line, after the audit: io.EOF at the end of stdout, errNothing when none comes within
// the time.
func (s *session) next(within time.Duration) ([]byte, error) {
	return s.nextThat(within, anyLine, noLine)
}

func anyLine([]byte) bool { return true }
func noLine([]byte) bool  { return false }

// nextThat is next, for a line that fits and is the first of its stream, but for lines that it may overtake.
func (s *session) nextThat(within time.Duration, fits, overtakes func([]byte) bool) ([]byte, error) {
	a, err := s.takeArrival(within, fits, overtakes)
	for _, before := range a.overtaken {
		if err := s.audit.received(before.line, before.at); err != nil {
			return before.line, fmt.Errorf("%s\n    %w", clipLine(before.line), err)
		}
	}
	if err == nil {
		if err := s.audit.received(a.line, a.at); err != nil {
			return a.line, fmt.Errorf("%s\n    %w", clipLine(a.line), err)
		}
	}
	return a.line, err
}

// patience is how long to wait for what must come.
func (s *session) patience() time.Duration {
	if s.pid == 0 {
		return virtualWatchdog
	}
	return watchdog
}

// take is next without the audit.
func (s *session) take(within time.Duration) ([]byte, error) {
	a, err := s.takeArrival(within, anyLine, noLine)
	return a.line, err
}

func (s *session) takeArrival(within time.Duration, fits, overtakes func([]byte) bool) (arrival, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		s.mu.Lock()
		behind := map[int]bool{}
		for i, a := range s.lines {
			if i == 0 && fits(a.line) { // nearly always, and a test may leave a hundred thousand lines
				s.lines = s.lines[1:]
				s.mu.Unlock()
				return a, nil
			}
			if !behind[a.stream] && fits(a.line) {
				later := s.lines[i+1:]
				before := slices.Clone(s.lines[:i])
				s.lines = nil
				for _, b := range before {
					if b.stream == a.stream {
						a.overtaken = append(a.overtaken, b)
					} else {
						s.lines = append(s.lines, b)
					}
				}
				s.lines = append(s.lines, later...)
				s.mu.Unlock()
				return a, nil
			}
			behind[a.stream] = behind[a.stream] || !overtakes(a.line)
		}
		end := s.end
		s.mu.Unlock()
		if end != nil {
			return arrival{}, end
		}
		select {
		case <-s.more:
		case <-timer.C:
			return arrival{}, errNothing
		}
	}
}

// line is next for a test that cannot go on without it.
func (s *session) line() []byte {
	s.t.Helper()
	line, err := s.next(s.patience())
	if err != nil {
		s.t.Fatalf("%v\nstderr:\n%s", err, s.stderr)
	}
	return line
}

// closeStdin is the client's end of file.
func (s *session) closeStdin() error {
	s.audit.closed()
	return s.in.Close()
}

// finish closes stdin and returns the lines that still come and the exit code.
func (s *session) finish() (rest [][]byte, code int, err error) {
	_ = s.closeStdin()
	for {
		line, err := s.next(s.patience())
		switch {
		case err == io.EOF:
			select {
			case <-s.exited:
				return rest, s.code, nil
			case <-time.After(s.patience()):
				return rest, 0, errors.New("the server does not exit")
			}
		case err != nil:
			return rest, 0, err
		}
		rest = append(rest, line)
	}
}

// clipLine keeps a report readable.
func clipLine(line []byte) string {
	const most = 600
	if len(line) <= most {
		return string(line)
	}
	return fmt.Sprintf("%s … (%d bytes)", line[:most], len(line))
}

// syncBuffer is a bytes.Buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// writeConfig writes a config file and returns the flags that name it.
func writeConfig(t testing.TB, yaml string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "runnel.yaml")
	if err := os.WriteFile(file, []byte(strings.TrimSpace(yaml)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--config", file}
}
