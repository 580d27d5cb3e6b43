package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"runnel/internal/cli"
)

// Over HTTP the same comes out as from a server after "--", whatever the version and the way of the call.
func TestURLInEveryDialect(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, "--selftest", "--pace=0", "--immediate-wait=1ms", "--state", "memory")
	want := "chunk 000000 xx\nchunk 000001 xx\nchunk 000002 xx\nstreamed 3 chunks"
	for _, flags := range []string{
		"--protocol=2025-03-26", "--protocol=2025-06-18", "--protocol=2025-06-18 --no-task",
		"", "--no-task", "--task", "--mode=task", "--mode=streaming", "--protocol=2026-07-28", "--protocol=2026-07-28 --no-task",
	} {
		args := append([]string{"call", "stream", "count=3", "bytes=16", "--summary", "--url", s.url}, strings.Fields(flags)...)
		got := runClient(t, "", args...)
		if got.code != exitFine || got.stdout != want || !strings.Contains(got.stderr, "gaps 0") || !strings.Contains(got.stderr, "completed after") {
			t.Errorf("%q: exit code %d\n%q\n%s", args, got.code, got.stdout, got.stderr)
		}
	}
	for name, args := range map[string][]string{
		"wrong flag":   {"tools", "--url", s.url, "--header", "Authorization Bearer-" + s.url},
		"both":         {"tools", "--url", s.url, "--", "x"},
		"header alone": {"tools", "--header", "A: b"},
		"no variable":  {"tools", "--url", s.url, "--header", "A: ${RUNNEL_NOT_THERE}"},
		"no URL":       {"tools", "--url", "localhost:80"},
		"config":       {"tools", "--url", s.url, "--selftest"},
	} {
		if got := runClient(t, "", args...); got.code != exitUsage || strings.Contains(got.stderr, "Bearer-") {
			t.Errorf("%s: exit code %d\n%s", name, got.code, got.stderr)
		}
	}
}

// cutter passes connections on to a server, and cuts all that there are.
type cutter struct {
	net.Listener
	to string

	mu   sync.Mutex
	open map[net.Conn]bool
}

func newCutter(t *testing.T, to string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l, to: to, open: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { c.pass(from) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		c.cut()
		all.Wait()
	})
	return c
}

func (c *cutter) pass(from net.Conn) {
	to, err := net.Dial("tcp", c.to)
	if err != nil {
		_ = from.Close()
		return
	}
	c.mu.Lock()
	c.open[from], c.open[to] = true, true
	c.mu.Unlock()
	end := func() { _, _ = from.Close(), to.Close() }
	var both sync.WaitGroup
	both.Go(func() { defer end(); _, _ = io.Copy(to, from) })
	both.Go(func() { defer end(); _, _ = io.Copy(from, to) })
	both.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, from)
	delete(c.open, to)
}

// cut cuts, what is under way is lost.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

// onFirst calls then when the first bytes come.
type onFirst struct {
	syncBuffer
	once sync.Once
	then func()
}

func (w *onFirst) Write(p []byte) (int, error) {
	w.once.Do(w.then)
	return w.syncBuffer.Write(p)
}

// A call whose connections are cut at 200 random moments while its output streams has every chunk once, in each way that output can come.
func TestCutsOfAStream(t *testing.T) {
	t.Parallel()
	const count, interval, cuts = 60, 3, 50
	s := serveHTTP(t, "--selftest", "--pace=5ms", "--immediate-wait=1ms", "--state", "memory")
	var want strings.Builder
	for n := range count {
		fmt.Fprintf(&want, "chunk %06d\n", n)
	}
	for _, flags := range []string{"--task", "--no-task", "--mode=streaming", "--protocol=2026-07-28"} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			for round := range cuts {
				c := newCutter(t, strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/mcp"))
				out, stderr := &onFirst{}, &syncBuffer{}
				after := rand.N(time.Duration(count*interval) * time.Millisecond)
				out.then = func() { time.AfterFunc(after, c.cut) }
				args := []string{"call", "stream", fmt.Sprint("count=", count), fmt.Sprint("intervalMs=", interval), "--summary", "--url", "http://" + c.Addr().String() + "/mcp", flags}
				code := cli.Run(t.Context(), args, append(environ(t), noConfig), strings.NewReader(""), out, stderr)
				var got strings.Builder
				for line := range strings.Lines(out.String()) {
					if len(line) > 12 && strings.HasPrefix(line, "chunk ") {
						got.WriteString(line[:12] + "\n")
					} else if line != "streamed 60 chunks" {
						got.WriteString(line)
					}
				}
				if code != exitFine || got.String() != want.String() || !strings.Contains(stderr.String(), "gaps 0") {
					t.Fatalf("round %d, cut after %v: exit code %d\n%s\n%s", round, after, code, got.String(), stderr)
				}
			}
		})
	}
}
