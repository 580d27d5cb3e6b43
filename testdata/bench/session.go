package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// session is a server that runs, and the client at its other end.
type session struct {
	server server
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	buf    []byte
	rest   []byte // read and not yet looked at
	// long holds lines that do not fit into a read: new memory for each takes longer than to read it.
	long []byte
}

// watchdog ends a measurement whose server does not answer.
const watchdog = 60 * time.Second

func start(s server, more ...string) (*session, error) {
	cmd := exec.Command(s.argv[0], append(s.argv[1:len(s.argv):len(s.argv)], more...)...)
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME=/nonexistent")
	cmd.Dir = os.TempDir() // where no config lies
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin = theirIn
	cmd.Stdout = theirOut
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	theirIn.Close()
	theirOut.Close()
	c := &session{server: s, cmd: cmd, in: in, out: out, buf: make([]byte, 256<<10)}
	return c, out.SetReadDeadline(time.Now().Add(watchdog))
}

// open starts a server and opens a session with it.
func open(s server, more ...string) (*session, error) {
	c, err := start(s, more...)
	if err != nil {
		return nil, err
	}
	return c, c.initialize()
}

func (c *session) initialize() error {
	c.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"streaming":{"partial":true}}},"clientInfo":{"name":"bench","version":"1"}}}`)
	if _, err := c.line(); err != nil {
		return err
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return nil
}

// send writes a line. What goes wrong shows as what does not come.
func (c *session) send(format string, args ...any) {
	_, _ = fmt.Fprintf(c.in, format+"\n", args...)
}

// stream calls the tool stream.
func (c *session) stream(id, count, interval int) { c.send("%s", c.streamLine(id, count, interval)) }

func (c *session) streamLine(id, count, interval int) string {
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"stream","arguments":{"count":%d,"intervalMs":%d}`, id, count, interval)
	if c.server.task {
		return line + `,"task":{}}}`
	}
	return fmt.Sprintf(`%s,"_meta":{"progressToken":%d}}}`, line, id)
}

// overhead is how many lines a stream has beside its chunks: a response, or a handle and a status.
func (c *session) overhead() int {
	if c.server.task {
		return 2
	}
	return 1
}

// read returns what has come, whole lines or not.
func (c *session) read() ([]byte, error) {
	if len(c.rest) > 0 {
		b := c.rest
		c.rest = nil
		return b, nil
	}
	n, err := c.out.Read(c.buf)
	if n > 0 {
		return c.buf[:n], nil
	}
	return nil, err
}

// line returns one line; only for lines that fit into a read.
func (c *session) line() ([]byte, error) {
	have := 0
	if len(c.rest) > 0 {
		have = copy(c.buf, c.rest)
		c.rest = nil
	}
	for {
		if i := bytes.IndexByte(c.buf[:have], '\n'); i >= 0 {
			c.rest = c.buf[i+1 : have]
			return c.buf[:i], nil
		}
		n, err := c.out.Read(c.buf[have:])
		if n == 0 {
			return nil, err
		}
		have += n
	}
}

// skip reads lines away.
func (c *session) skip(lines int) error {
	for lines > 0 {
		b, err := c.read()
		if err != nil {
			return fmt.Errorf("%d lines are missing: %w", lines, err)
		}
		lines -= bytes.Count(b, []byte{'\n'})
	}
	return nil
}

// each hands every line to f until it returns false.
func (c *session) each(f func(line []byte) bool) error {
	head := c.long[:0] // a line's beginning, from the reads before
	defer func() { c.long = head }()
	for {
		b, err := c.read()
		if err != nil {
			return err
		}
		for len(b) > 0 {
			i := bytes.IndexByte(b, '\n')
			if i < 0 {
				head = append(head, b...)
				break
			}
			line := b[:i]
			if len(head) > 0 {
				head = append(head, line...)
				line = head
			}
			b = b[i+1:]
			more := f(line)
			head = head[:0]
			if !more {
				c.rest = b
				return nil
			}
		}
	}
}

// settle takes the last answers, so that a server does not complain about a client that has gone.
func (c *session) settle() {
	const quiet = 100 * time.Millisecond
	_ = c.out.SetReadDeadline(time.Now().Add(quiet))
	for {
		if _, err := c.read(); err != nil {
			return
		}
	}
}

// cpu is the processor time that the server has used, in nanoseconds.
func (c *session) cpu() float64 { return cpuOf(c.cmd.Process.Pid) }

// cpuOf is the processor time that a process has used, in nanoseconds, by the scheduler's own clock:
// /proc/PID/stat counts in steps of 10 ms.
func cpuOf(pid int) float64 {
	const scheduler = 2 // CPUCLOCK_SCHED
	var used unix.Timespec
	_ = unix.ClockGettime(int32(^pid<<3|scheduler), &used) // fails only when the process has ended
	return float64(used.Nano())
}

// memory is a line of /proc/PID/status in MiB: VmHWM is the peak, VmRSS what is held now.
func (c *session) memory(name string) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib / 1024
		}
	}
	return 0
}

// private is the memory in MiB that the server shares with no other process.
func (c *session) private() (mib float64) { return c.rollup("Private_") }

// rollup is the sum in MiB of the lines of /proc/PID/smaps_rollup that begin so.
func (c *session) rollup(name string) (mib float64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", c.cmd.Process.Pid))
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, name) {
			kib, _ := strconv.ParseFloat(strings.Fields(line)[1], 64)
			mib += kib / 1024
		}
	}
	return mib
}

// switches is how often the server's threads have been given a processor: a timer that fires shows here.
func (c *session) switches() (n float64) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", c.cmd.Process.Pid))
	for _, file := range files {
		b, _ := os.ReadFile(file)
		for line := range strings.Lines(string(b)) {
			if name, count, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "ctxt_switches") {
				of, _ := strconv.ParseFloat(strings.TrimSpace(count), 64)
				n += of
			}
		}
	}
	return n
}

// end closes the session and waits for the server.
func (c *session) end() {
	c.in.Close()
	go io.Copy(io.Discard, c.out)
	kill := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() })
	_ = c.cmd.Wait()
	kill.Stop()
	c.out.Close()
}
